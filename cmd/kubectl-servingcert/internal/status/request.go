package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// IsLost reports whether --replace-lost is for a CA with a problem of this reason.
func IsLost(reason string) bool { return reason == api.CALost || reason == api.CACorrupt }

// RequestDecision is what is to be done about a request.
type RequestDecision struct {
	Write bool   // ask for it
	Over  bool   // it was answered: there is nothing to follow
	Text  string // for people, with its newlines
}

// noCA reports whether a problem of this reason leaves no CA that could be rotated.
func noCA(reason string) bool { return IsLost(reason) || reason == api.CANewerVersion }

// DecideRequest returns what is to be done about a request, by the status
// ConfigMap. The error is why nothing is done.
func DecideRequest(cm *corev1.ConfigMap, wanted api.RotateRequest) (RequestDecision, error) {
	status := ParseCA(cm.Data)
	if answered, refused := status.Answers(wanted); answered {
		return afterAnswer(status, wanted, refused)
	}
	reason := status.facts.Problem.Reason
	switch replace := wanted.Mode == api.RotateReplaceLost; {
	case replace && !IsLost(reason):
		return RequestDecision{}, fmt.Errorf("--replace-lost: the CA is neither lost nor corrupt: %s", status.Progress())
	case !replace && noCA(reason):
		return RequestDecision{}, fmt.Errorf("there is no CA to rotate: %s", status.Problem)
	}
	open := openRequest(cm, status)
	switch {
	case open == nil:
		return RequestDecision{Write: true}, nil
	case *open == wanted:
		return RequestDecision{Text: "already requested, and not answered yet\n"}, nil
	case wanted.Breaks():
		return RequestDecision{Write: true, Text: fmt.Sprintf("this replaces request %s %q, which was not answered yet\n", open.Mode, open.Reason)}, nil
	}
	return RequestDecision{}, fmt.Errorf("another rotation was requested and is not answered yet (%s %q): wait for it. %s", open.Mode, open.Reason, status.Progress())
}

// afterAnswer returns what is to be done about a request that was answered. One that
// is not finished yet is followed to its end, whoever asks again.
func afterAnswer(status CAStatus, wanted api.RotateRequest, refused bool) (RequestDecision, error) {
	if refused {
		return RequestDecision{}, fmt.Errorf("already requested; %s", status.RotationOutcome)
	}
	if IsLost(status.facts.Problem.Reason) {
		return RequestDecision{}, fmt.Errorf("already requested, for an earlier loss: give another --reason. %s", status.Problem)
	}
	says := fmt.Sprintf("already requested; %s\n", status.RotationOutcome)
	if !wanted.Breaks() && (!status.SignsAlone() || status.Behind()) {
		return RequestDecision{Text: says}, nil
	}
	return RequestDecision{Over: true, Text: says + status.Progress() + "\n"}, nil
}

// openRequest returns the request of the annotations if it was not answered, and
// nil if there is none. One that the signer refuses to parse does not count: it
// will not be answered.
func openRequest(cm *corev1.ConfigMap, status CAStatus) *api.RotateRequest {
	open, err := api.ParseRotateRequest(cm.Annotations)
	if err != nil || open == (api.RotateRequest{}) || open == status.facts.Rotation {
		return nil
	}
	return &open
}
