package pods

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Trouble is a container that was given something and is not ready, or has failed.
type Trouble struct {
	Container string
	// Switched: it was given what mode env leaves out, and not only files and the usual
	// variables.
	Switched bool
	Ready    bool
	Restarts int32
	// ExitCode is of its latest run that has ended, 0 if there is none or it lasted. Said is
	// the end of what that run wrote, in one line and quoted; empty for nothing.
	ExitCode int32
	Said     string
	// Started is when it was started last; zero if it does not run.
	Started time.Time
	// Begun is when the pod's containers could start: after the kubelet had taken it and its
	// init containers had ended. It is zero if the pod has been ready since.
	Begun time.Time
}

// lasting is how long a run takes that did not fail because of what was added: after as long, a
// kubelet takes a container for stable, too.
const lasting = 10 * time.Minute

// troubleOf returns the container in trouble that was restarted most, the first of several; nil if
// there is none. s is the webhook's status of the pod.
func troubleOf(pod *corev1.Pod, s api.InjectionStatus, given Given) *Trouble {
	if !given.Injected {
		return nil
	}
	var worst *corev1.ContainerStatus
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			if s.Containers[c.Name] == "" || !inTrouble(c) || len(validation.IsDNS1123Label(c.Name)) > 0 {
				continue
			}
			if worst == nil || c.RestartCount > worst.RestartCount {
				worst = c
			}
		}
	}
	if worst == nil {
		return nil
	}
	t := &Trouble{
		Container: strings.Clone(worst.Name), Switched: switched(s.Containers[worst.Name]),
		Ready: worst.Ready, Restarts: worst.RestartCount, Begun: begun(pod),
	}
	if ended := failure(worst); ended != nil {
		t.ExitCode, t.Said = ended.ExitCode, said(ended.Message)
	}
	if worst.State.Running != nil {
		t.Started = worst.State.Running.StartedAt.Time
	}
	return t
}

// inTrouble reports whether a container is not ready although it was started, or has failed. One
// that waits for its startup probe was not started, and one that has ended well is done.
func inTrouble(c *corev1.ContainerStatus) bool {
	ended := c.State.Terminated
	switch {
	case failure(c) != nil:
		return true
	case c.Ready || ended != nil && ended.ExitCode == 0:
		return false
	}
	return c.RestartCount > 0 || ended != nil || c.Started != nil && *c.Started
}

// failure returns the end of the container's latest run that has ended, nil if there is none, it
// ended well, or it lasted.
func failure(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	ended := c.State.Terminated
	if ended == nil {
		ended = c.LastTerminationState.Terminated
	}
	if ended == nil || ended.ExitCode == 0 || ended.FinishedAt.Sub(ended.StartedAt.Time) >= lasting {
		return nil
	}
	return ended
}

// switched reports whether parts, separated by commas, are of those that only mode args gives.
func switched(parts string) bool {
	for part := range strings.SplitSeq(beginning(parts, maxParts), ",") {
		switch part {
		case "flags", "variables", "probes":
			return true
		}
	}
	return false
}

// said returns the end of a container's termination message, in one line and quoted.
func said(message string) string {
	message = end(message, maxSaid)
	words := strings.FieldsFunc(strings.ToValidUTF8(message, " "), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	if len(words) == 0 {
		return ""
	}
	return strconv.Quote(strings.Join(words, " "))
}

// begun returns Trouble.Begun. The kubelet says that a pod is not ready when it takes it, and then
// again when it is not any more.
func begun(pod *corev1.Pod) (begun time.Time) {
	if pod.Status.StartTime != nil {
		begun = pod.Status.StartTime.Time
	}
	var ready *corev1.PodCondition
	for i := range pod.Status.Conditions {
		switch c := &pod.Status.Conditions[i]; c.Type {
		case corev1.PodInitialized:
			if c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(begun) {
				begun = c.LastTransitionTime.Time
			}
		case corev1.PodReady:
			ready = c
		}
	}
	if ready == nil || ready.Status == corev1.ConditionTrue || ready.LastTransitionTime.Sub(begun) > sameMoment {
		return time.Time{}
	}
	return begun
}

// sameMoment is within what the kubelet says what it has found out at once.
const sameMoment = 5 * time.Second
