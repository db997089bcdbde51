package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

// Reasons of a CA problem that --replace-lost is for.
func isLost(reason string) bool { return reason == ca.ReasonLost || reason == ca.ReasonCorrupt }

// refusedPrefix is how api.CARotationOutcome begins if the answer was no.
const refusedPrefix = "refused"

// requestVerdict is what is to be done about a request.
type requestVerdict struct {
	write bool   // ask for it
	over  bool   // it was answered: there is nothing to follow
	says  string // for people, with its newlines
}

// decideRequest says what is to be done about a request, by what the status
// ConfigMap holds. An error is why nothing is done. It is pure.
func decideRequest(cm *corev1.ConfigMap, wanted rotation) (requestVerdict, error) {
	status := parseCA(cm.Data)
	if status.Rotation == wanted.String() {
		return answered(status, wanted)
	}
	reason, _, _ := strings.Cut(status.Problem, ":")
	switch replace := wanted.mode == api.RotateReplaceLost; {
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
	case wanted.breaks():
		return requestVerdict{write: true, says: fmt.Sprintf("this takes the place of %s %q, which was not answered yet\n", open.mode, open.reason)}, nil
	}
	return requestVerdict{}, fmt.Errorf("another rotation was asked for and is not answered yet (%s %q): wait for it. %s", open.mode, open.reason, status.progress())
}

// answered says what became of a request. One that goes its way is followed to the
// end by whoever asks again.
func answered(status caStatus, wanted rotation) (requestVerdict, error) {
	if strings.HasPrefix(status.RotationOutcome, refusedPrefix) {
		return requestVerdict{}, fmt.Errorf("asked for before; %s", status.RotationOutcome)
	}
	if reason, _, _ := strings.Cut(status.Problem, ":"); isLost(reason) {
		return requestVerdict{}, fmt.Errorf("asked for before, of an earlier loss; this one takes another --reason. %s", status.Problem)
	}
	says := fmt.Sprintf("asked for before; %s\n", status.RotationOutcome)
	if !wanted.breaks() && (!signsAlone(status) || status.behind()) {
		return requestVerdict{says: says}, nil
	}
	return requestVerdict{over: true, says: says + status.progress() + "\n"}, nil
}

// openRequest returns the request of the annotations if it was not answered, and
// nil if there is none. One that the signer takes for wrong is none: it will not
// be answered.
func openRequest(cm *corev1.ConfigMap, status caStatus) *rotation {
	r := ca.ParseRequest(cm.Annotations)
	open := rotation{r.Mode, r.Reason}
	if r.Reason == "" || r.Wrong != nil || open.String() == status.Rotation {
		return nil
	}
	return &open
}
