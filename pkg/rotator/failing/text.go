package failing

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// maxNamed is how many failures a condition reports in words.
const maxNamed = 5

// condition returns what a Service is to say, nil if nothing fails.
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

// workload names the workload, or the bare pod, for people.
func (f Finding) workload() string {
	if f.Workload.Bare() {
		return api.PodKind + " " + f.Pod
	}
	return f.Workload.String()
}

// textOf says how the pod fails, and what leaves out what was added. It has room in the note of
// an event, as pods.Trouble is bounded.
func textOf(pod *pods.Facts) string {
	t := pod.Trouble
	text := fmt.Sprintf("container %s of pod %s ", t.Container, pod.Name)
	switch {
	case t.ExitCode == 0:
		text += "was not ready within a minute"
	case t.Restarts < enough:
		text += fmt.Sprintf("was not ready within a minute, and exited with code %d", t.ExitCode)
	default:
		text += fmt.Sprintf("exited with code %d and was restarted %d times", t.ExitCode, t.Restarts)
	}
	if t.ExitCode != 0 && t.Said == "" {
		text += ", without a message"
	} else if t.Said != "" {
		text += ", and wrote at last " + t.Said
	}
	takeBack := optOut
	if t.Switched {
		takeBack = "annotate the pod template " + api.AnnotationMode + ": " + string(api.ModeEnv) + ", which leaves out flags, variables of the program and HTTPS probes"
	}
	return text + "; if what servingcert added is the cause, " + takeBack
}

const optOut = "label the pod template " + api.LabelInject + ": " + api.InjectDisabled + ", which leaves out all of it"

// textOfDeletions says that pods are deleted again and again.
func textOfDeletions() string {
	return fmt.Sprintf("%d or more of its pods were deleted within %s after they had been created with what servingcert added; if its operator does not accept that, %s", enough, shortLife, optOut)
}
