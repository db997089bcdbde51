package pods

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// ShortRun is the longest run that counts as short. Most programs that do not know their
// command line exit before they do anything else, which takes a JVM on a busy node some
// seconds.
const ShortRun = 10 * time.Second

// Crashes are the containers of a pod whose latest run was short and ended with an
// error, and those with an attempt that ended in any other way, said why, and do not run
// again.
type Crashes struct {
	// Begun is when the pod's containers could start: after the kubelet had taken it and
	// its init containers had ended.
	Begun      time.Time
	Containers []Crash // by the order of their statuses
}

// Crash is such a container.
type Crash struct {
	Container string
	// Waiting: the kubelet waits before it starts the container again
	// (CrashLoopBackOff).
	Waiting bool
	// Resumed is when the container was started again; zero if it does not run.
	Resumed           time.Time
	Restarts          int32
	Started, Finished time.Time // the run that ended
	ExitCode, Signal  int32
	Reason            string // of the kubelet, such as Error or OOMKilled

	// Message is the end of the container's log, or what it wrote for the kubelet, and
	// Given the names of the flags and variables that lead it to the certificate's
	// files (IsName). Both are of a container with an attempt only.
	Message string
	Given   []string
}

// Short reports whether the run was short and ended with an error.
func (c Crash) Short() bool { return c.ExitCode != 0 && c.Finished.Sub(c.Started) <= ShortRun }

// crashesOf returns the crashes of a pod, nil if there are none. They are read from its
// status. s is the webhook's, and t the pod's template. Of more than maxCrashes containers with an attempt, and of
// those without one, the first are kept, and one crash of each.
func crashesOf(pod *corev1.Pod, s api.InjectionStatus, t *Template) *Crashes {
	var out []Crash
	attempts, counts := t.ContainerAttempts(), map[bool]int{} // by whether there is an attempt
	key := SecretKey(s.Secret)
	if s.KeySource == api.KeySourcePod {
		key = PodKey
	}
	messages, names := room(maxMessages), newNameReader(pod, key)
	names.more = s.Names
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			of := &statuses[i]
			c, crashes := crashOf(of)
			made := slices.ContainsFunc(attempts, func(a api.ContainerAttempt) bool { return a.Container == of.Name && !a.Withheld })
			known := func(other Crash) bool { return other.Container == of.Name }
			if crashes && !c.Short() { // it counts only for what it says
				crashes = made && c.Resumed.IsZero() && endOf(of).Message != ""
			}
			if !crashes || counts[made] == maxCrashes || slices.ContainsFunc(out, known) {
				continue
			}
			counts[made]++
			if made {
				message := end(endOf(of).Message, min(maxMessage, int(messages))) // of more, the end says why
				messages.take(len(message))
				c.Message, c.Given = strings.Clone(message), names.given(of.Name)
			}
			out = append(out, c)
		}
	}
	if out == nil {
		return nil
	}
	return &Crashes{Begun: begun(pod), Containers: out}
}

// crashOf returns the crash that the status of a container shows, without its words; false
// if it shows of none.
func crashOf(s *corev1.ContainerStatus) (Crash, bool) {
	c := Crash{Container: s.Name, Restarts: s.RestartCount}
	switch {
	case len(s.Name) > validation.DNS1123LabelMaxLength:
		return Crash{}, false // it is in no spec
	case s.State.Terminated != nil:
	case s.State.Running != nil:
		c.Resumed = s.State.Running.StartedAt.Time
	case s.State.Waiting != nil && s.State.Waiting.Reason == reasonBackOff:
		c.Waiting = true
	default:
		return Crash{}, false // the kubelet does not get as far as to start it
	}
	ended := endOf(s)
	if ended == nil {
		return Crash{}, false
	}
	c.Started, c.Finished = ended.StartedAt.Time, ended.FinishedAt.Time
	c.ExitCode, c.Signal, c.Reason = ended.ExitCode, ended.Signal, strings.Clone(beginning(ended.Reason, maxReason))
	return c, true
}

// reasonBackOff is the kubelet's for a container that it starts again after a while.
const reasonBackOff = "CrashLoopBackOff"

// endOf returns the end of the container's latest run, nil if none is known.
func endOf(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

func begun(pod *corev1.Pod) time.Time {
	var begun time.Time
	if pod.Status.StartTime != nil {
		begun = pod.Status.StartTime.Time
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(begun) {
			begun = c.LastTransitionTime.Time
		}
	}
	return begun
}
