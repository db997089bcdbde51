package pods

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Trouble is an injected container that is not ready or has failed.
type Trouble struct {
	Container string
	// Switched: it was injected in mode args, beyond the files and variables of mode env.
	Switched bool
	Ready    bool
	Restarts int32
	// ExitCode is that of its latest terminated run; 0 if there was none or it was long (see
	// lasting). Output is the end of that run's termination message, on one line and quoted; or
	// empty.
	ExitCode int32
	Output   string
	// Started is the start of its current run; zero if it does not run.
	Started time.Time
	// Begun is the start of its first run, so that pulling an image and waiting for volumes do not
	// count. If that is not known, it is when the pod's containers could start: the kubelet had
	// accepted the pod, and its init containers had terminated. In the first run it is later by what
	// the startup probe gives: when the probe passed is not in the status. It is zero if the pod has
	// been ready since.
	Begun time.Time
}

// Equal reports whether both are the same, or neither is there.
func (t *Trouble) Equal(other *Trouble) bool {
	if t == nil || other == nil {
		return t == other
	}
	return *t == *other
}

// lasting is the duration after which a run is not regarded as failed by the injection. The kubelet
// resets its back-off after as long.
const lasting = 10 * time.Minute

// troubleOf returns the container in trouble with the most restarts, the first of several; or nil.
// s is the webhook's status.
func troubleOf(pod *corev1.Pod, s api.InjectionStatus, injection Injection) *Trouble {
	if !injection.Injected {
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
		Ready: worst.Ready, Restarts: worst.RestartCount, Begun: begun(pod, worst),
	}
	if ended := failure(worst); ended != nil {
		t.ExitCode, t.Output = ended.ExitCode, outputOf(ended.Message)
	}
	if worst.State.Running != nil {
		t.Started = worst.State.Running.StartedAt.Time
	}
	return t
}

// inTrouble reports whether a container has failed, or is not ready although it was started. A
// container that waits for its startup probe does not count, nor does one that has succeeded.
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

// failure returns the container's latest terminated run; nil if there was none, it succeeded, or it
// was long (see lasting).
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

// switched reports whether one of parts, separated by commas, is added only in mode args.
func switched(parts string) bool {
	for part := range strings.SplitSeq(beginning(parts, maxParts), ",") {
		switch part {
		case "flags", "variables", "probes":
			return true
		}
	}
	return false
}

// outputOf returns the end of a container's termination message, on one line and quoted.
func outputOf(message string) string {
	message = end(message, maxOutput)
	words := strings.FieldsFunc(strings.ToValidUTF8(message, " "), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	if len(words) == 0 {
		return ""
	}
	return strconv.Quote(strings.Join(words, " "))
}

// begun returns Trouble.Begun for the container. The kubelet sets Ready to false when it accepts a
// pod, and again when the pod is no longer ready.
func begun(pod *corev1.Pod, c *corev1.ContainerStatus) (begun time.Time) {
	if pod.Status.StartTime != nil {
		begun = pod.Status.StartTime.Time
	}
	var ready *corev1.PodCondition
	for i := range pod.Status.Conditions {
		switch is := &pod.Status.Conditions[i]; is.Type {
		case corev1.PodInitialized:
			if is.Status == corev1.ConditionTrue && is.LastTransitionTime.After(begun) {
				begun = is.LastTransitionTime.Time
			}
		case corev1.PodReady:
			ready = is
		}
	}
	if ready == nil || ready.Status == corev1.ConditionTrue || ready.LastTransitionTime.Sub(begun) > sameMoment {
		return time.Time{}
	}
	if started := firstStart(c); started.After(begun) {
		begun = started
	}
	if c.RestartCount == 0 {
		begun = begun.Add(startupOf(pod, c.Name))
	}
	return begun
}

// firstStart returns the start of the container's first run; zero if it is not known. The status has the
// latest two runs only. It must not move to a later time, at which a failure would end and begin again.
func firstStart(c *corev1.ContainerStatus) time.Time {
	last := c.LastTerminationState.Terminated
	switch {
	case c.RestartCount == 1 && last != nil:
		return last.StartedAt.Time
	case c.RestartCount > 0:
		return time.Time{}
	case c.State.Terminated != nil:
		return c.State.Terminated.StartedAt.Time
	case c.State.Running != nil:
		return c.State.Running.StartedAt.Time
	}
	return time.Time{}
}

// sameMoment bounds the differences between times that the kubelet writes together.
const sameMoment = 5 * time.Second

// maxStartup bounds the time that a startup probe gives.
const maxStartup = time.Hour

// startupOf returns the longest time in which the container's startup probe passes or fails; zero if it has none.
func startupOf(pod *corev1.Pod, container string) time.Duration {
	for _, c := range api.RunningContainers(pod) {
		if p := c.StartupProbe; c.Name == container && p != nil {
			seconds := int64(p.InitialDelaySeconds) + int64(cmp.Or(p.PeriodSeconds, 10))*int64(cmp.Or(p.FailureThreshold, 3))
			return time.Duration(min(max(seconds, 0), int64(maxStartup/time.Second))) * time.Second
		}
	}
	return 0
}
