package judge

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

// IsLost reports whether --replace-lost is for a CA with a problem of this reason.
func IsLost(reason string) bool { return reason == ca.ReasonLost || reason == ca.ReasonCorrupt }

// Rotation is a way and a reason: what makes one request differ from another.
type Rotation struct {
	Mode   api.RotateMode
	Reason string
}

// String is the form of api.CARotation.
func (r Rotation) String() string { return string(r.Mode) + ":" + r.Reason }

// Annotations returns the annotations that ask for it.
func (r Rotation) Annotations() map[string]string {
	return map[string]string{api.AnnotationRotate: r.Reason, api.AnnotationRotateMode: string(r.Mode)}
}

// Breaks reports whether clients and servers fail until they have reloaded.
func (r Rotation) Breaks() bool {
	return r.Mode == api.RotateDistrust || r.Mode == api.RotateReplaceLost
}

// RequestDecision is what is to be done about a request.
type RequestDecision struct {
	Write bool   // ask for it
	Over  bool   // it was answered: there is nothing to follow
	Text  string // for people, with its newlines
}

// DecideRequest returns what is to be done about a request, by the status
// ConfigMap. The error is why nothing is done.
func DecideRequest(cm *corev1.ConfigMap, wanted Rotation) (RequestDecision, error) {
	status := ParseCA(cm.Data)
	if status.Rotation == wanted.String() {
		return answered(status, wanted)
	}
	reason, _, _ := strings.Cut(status.Problem, ":")
	switch replace := wanted.Mode == api.RotateReplaceLost; {
	case replace && !IsLost(reason):
		return RequestDecision{}, fmt.Errorf("--replace-lost: the CA is neither lost nor corrupt: %s", status.Progress())
	case !replace && IsLost(reason):
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

// answered returns what became of a request. One that is not finished yet is
// followed to its end, whoever asks again.
func answered(status CAStatus, wanted Rotation) (RequestDecision, error) {
	if status.Refused() {
		return RequestDecision{}, fmt.Errorf("already requested; %s", status.RotationOutcome)
	}
	if reason, _, _ := strings.Cut(status.Problem, ":"); IsLost(reason) {
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
func openRequest(cm *corev1.ConfigMap, status CAStatus) *Rotation {
	r := ca.ParseRequest(cm.Annotations)
	open := Rotation{r.Mode, r.Reason}
	if r.Reason == "" || r.Wrong != nil || open.String() == status.Rotation {
		return nil
	}
	return &open
}
