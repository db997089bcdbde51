package failing

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// maxNamed is the maximum number of failures in a condition's message.
const maxNamed = 5

// condition returns the condition of a Service; nil if nothing fails.
func condition(found []Finding) *state.Condition {
	if len(found) == 0 {
		return nil
	}
	var texts []string
	reason := api.PodsDeleted
	for _, f := range found {
		if f.Reason == api.PodsFailing {
			reason = api.PodsFailing
		}
		texts = append(texts, f.workload()+": "+f.Text)
	}
	return &state.Condition{Condition: metav1.Condition{
		Type: api.ConditionPodsHealthy, Status: metav1.ConditionFalse, Reason: reason, Message: api.ListedTexts(texts, maxNamed),
	}}
}

// workload returns the name of the workload, or of the bare pod, for people.
func (f Finding) workload() string {
	if f.Workload.Bare() {
		return api.PodKind + " " + f.Pod
	}
	return f.Workload.String()
}

// textOf describes the failure of the pod, and how to prevent the injection. It fits into the note
// of an event, because pods.Trouble is bounded.
func textOf(pod *pods.Facts) string {
	t := pod.Trouble
	text := fmt.Sprintf("container %s of pod %s ", t.Container, pod.Name)
	switch {
	case t.ExitCode == 0:
		text += "was not ready within a minute"
	case t.Restarts < minRepeats:
		text += fmt.Sprintf("was not ready within a minute, and exited with code %d", t.ExitCode)
	default:
		text += fmt.Sprintf("exited with code %d and was restarted %d times", t.ExitCode, t.Restarts)
	}
	if t.ExitCode != 0 && t.Output == "" {
		text += ", without a termination message"
	} else if t.Output != "" {
		text += "; its termination message ends with " + t.Output
	}
	remedy := optOut
	if t.Switched {
		remedy = "annotate the pod template " + api.AnnotationMode + ": " + string(api.ModeEnv) + ", which omits flags, variables of the program and HTTPS probes"
	}
	return text + "; if the injection is the cause, " + remedy
}

const optOut = "label the pod template " + api.LabelInject + ": " + api.InjectDisabled + ", which omits everything"

// textOfDeletions describes repeated deletions of pods.
func textOfDeletions() string {
	return fmt.Sprintf("%d or more of its injected pods were deleted within %s after their creation; if its operator does not accept the injection, %s", minRepeats, shortLife, optOut)
}
