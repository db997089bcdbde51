package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reasons of a CA problem that --replace-lost is for.
func isLost(reason string) bool { return reason == api.CALost || reason == api.CACorrupt }

// requestVerdict is what is to be done about a request.
type requestVerdict struct {
	write bool   // ask for it
	over  bool   // it was answered: there is nothing to follow
	says  string // for people, with its newlines
}

// decideRequest says what is to be done about a request, by what the status
// ConfigMap holds. An error is why nothing is done. It is pure.
func decideRequest(cm *corev1.ConfigMap, wanted api.RotateRequest) (requestVerdict, error) {
	status := parseCA(cm.Data)
	if status.facts.Rotation == wanted {
		return answered(status, wanted)
	}
	reason := status.facts.Problem.Reason
	switch replace := wanted.Mode == api.RotateReplaceLost; {
	case replace && !isLost(reason):
		return requestVerdict{}, fmt.Errorf("--replace-lost is for a CA that is lost or corrupt, and this one is neither: %s", status.progress())
	case !replace && isLost(reason):
		return requestVerdict{}, fmt.Errorf("there is no CA that could be succeeded: %s", status.Problem)
	}
	open := openRequest(cm, status)
	switch {
	case open == nil:
		return requestVerdict{write: true}, nil
	case *open == wanted:
		return requestVerdict{says: "asked for before, and not answered yet\n"}, nil
	case breaks(wanted):
		return requestVerdict{write: true, says: fmt.Sprintf("this takes the place of %s %q, which was not answered yet\n", open.Mode, open.Reason)}, nil
	}
	return requestVerdict{}, fmt.Errorf("another rotation was asked for and is not answered yet (%s %q): wait for it. %s", open.Mode, open.Reason, status.progress())
}

// answered says what became of a request. One that goes its way is followed to the
// end by whoever asks again.
func answered(status caStatus, wanted api.RotateRequest) (requestVerdict, error) {
	if status.facts.RotationOutcome.Refused {
		return requestVerdict{}, fmt.Errorf("asked for before; %s", status.RotationOutcome)
	}
	if isLost(status.facts.Problem.Reason) {
		return requestVerdict{}, fmt.Errorf("asked for before, of an earlier loss; this one takes another --reason. %s", status.Problem)
	}
	says := fmt.Sprintf("asked for before; %s\n", status.RotationOutcome)
	if !breaks(wanted) && (!signsAlone(status) || status.behind()) {
		return requestVerdict{says: says}, nil
	}
	return requestVerdict{over: true, says: says + status.progress() + "\n"}, nil
}

// openRequest returns the request of the annotations if it was not answered, and
// nil if there is none. One that the signer takes for wrong is none: it will not
// be answered.
func openRequest(cm *corev1.ConfigMap, status caStatus) *api.RotateRequest {
	open, err := api.ParseRotateRequest(cm.Annotations)
	if err != nil || open == (api.RotateRequest{}) || open == status.facts.Rotation {
		return nil
	}
	return &open
}
