package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// IsLost reports whether the problem with this reason needs --replace-lost.
func IsLost(reason string) bool { return reason == api.CALost || reason == api.CACorrupt }

// RequestDecision is the result of DecideRequest.
type RequestDecision struct {
	Write bool   // write the request
	Over  bool   // it is finished: there is nothing to follow
	Text  string // for people, with its newlines
}

// noCA reports whether the problem with this reason leaves no CA to rotate.
func noCA(reason string) bool { return IsLost(reason) || reason == api.CANewerVersion }

// DecideRequest decides about a request, by the status ConfigMap. The error is why
// nothing is done.
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
	case open == nil && status.Phase == api.PhaseWait && !wanted.Breaks(): // the signer makes the next generation after this one
		return RequestDecision{Write: true, Text: fmt.Sprintf("this rotation is queued until generation %d signs. %s\n", status.NextGeneration, status.Progress())}, nil
	case open == nil:
		return RequestDecision{Write: true}, nil
	case *open == wanted:
		return RequestDecision{Text: "already requested, and not answered yet\n"}, nil
	case wanted.Breaks():
		return RequestDecision{Write: true, Text: fmt.Sprintf("this replaces request %s %q, which was not answered yet\n", open.Mode, open.Reason)}, nil
	}
	return RequestDecision{}, fmt.Errorf("another rotation was requested and is not answered yet (%s %q): wait for it. %s", open.Mode, open.Reason, status.Progress())
}

// afterAnswer decides about a request that was answered. If the rotation is not finished,
// it is followed to its end.
func afterAnswer(status CA, wanted api.RotateRequest, refused bool) (RequestDecision, error) {
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

// openRequest returns the request in the annotations that is not answered yet, or nil.
// An invalid one does not count, because the signer never answers it.
func openRequest(cm *corev1.ConfigMap, status CA) *api.RotateRequest {
	open, err := api.ParseRotateRequest(cm.Annotations)
	if err != nil || open == (api.RotateRequest{}) || open == status.facts.Rotation {
		return nil
	}
	return &open
}
