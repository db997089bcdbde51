package pods

import (
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// ShortRun is the longest run that counts as short. A program that does not know its
// command line exits before it does anything else, which takes a JVM on a busy node
// some seconds.
const ShortRun = 10 * time.Second

// maxMessage bounds a termination message, in bytes. A kubelet that takes it from the
// log writes no more.
const maxMessage = 2048

// Crashes are the containers of a pod whose latest run was short and ended with an
// error.
type Crashes struct {
	// Begun is when the pod's containers could start: after the kubelet had taken it and
	// its init containers had ended.
	Begun      time.Time
	Containers []Crash // by the order of their statuses
}

// Crash is a container whose latest run was short and ended with an error.
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
	// files. Both are of a container with an attempt only.
	Message string
	Given   []string
}

// crashesOf returns the crashes of a pod, nil if there are none. They are read from its
// status, and t is its template.
func crashesOf(pod *corev1.Pod, t *Template) *Crashes {
	var out []Crash
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if c, ok := crashOf(&statuses[i]); ok {
				out = append(out, c)
			}
		}
	}
	if out == nil {
		return nil
	}
	attempts := t.ContainerAttempts()
	for i := range out {
		c := &out[i]
		made := slices.ContainsFunc(attempts, func(a api.ContainerAttempt) bool { return a.Container == c.Container && !a.Withheld })
		if !made {
			c.Message = ""
			continue
		}
		c.Given = givenNames(pod, c.Container, t.Given.Secret)
	}
	return &Crashes{Begun: begun(pod), Containers: out}
}

// crashOf returns the crash that the status of a container shows, false if it shows
// of none.
func crashOf(s *corev1.ContainerStatus) (Crash, bool) {
	c := Crash{Container: s.Name, Restarts: s.RestartCount}
	ended := s.LastTerminationState.Terminated
	switch {
	case s.State.Terminated != nil:
		ended = s.State.Terminated
	case s.State.Running != nil:
		c.Resumed = s.State.Running.StartedAt.Time
	case s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff":
		c.Waiting = true
	default:
		return Crash{}, false // the kubelet does not get as far as to start it
	}
	if ended == nil || ended.ExitCode == 0 || ended.FinishedAt.Sub(ended.StartedAt.Time) > ShortRun {
		return Crash{}, false
	}
	c.Started, c.Finished = ended.StartedAt.Time, ended.FinishedAt.Time
	c.ExitCode, c.Signal, c.Reason = ended.ExitCode, ended.Signal, ended.Reason
	c.Message = strings.Clone(ended.Message[max(0, len(ended.Message)-maxMessage):]) // of more, the end says why
	return c, true
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

// standard are the variables that each container gets, whatever is tried with it.
var standard = []string{api.EnvCertFile, api.EnvKeyFile, api.EnvCAFile}

// givenNames returns the names, without dashes, of the container's flags and variables
// whose value leads to where the Secret is mounted.
func givenNames(pod *corev1.Pod, container, secret string) []string {
	containers := api.RunningContainers(pod)
	i := slices.IndexFunc(containers, func(c api.ContainerRef) bool { return c.Name == container })
	if i < 0 {
		return nil
	}
	c := containers[i]
	var dirs []string
	for _, m := range c.VolumeMounts {
		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && slices.Contains(keysIn(&v), secret) }) {
			dirs = append(dirs, path.Clean(m.MountPath))
		}
	}
	leadsThere := func(value string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return strings.Contains(value, dir) })
	}
	var names []string
	line := slices.Concat(c.Command, c.Args)
	for i, token := range line {
		if !leadsThere(token) {
			continue
		}
		name, _, _ := strings.Cut(token, "=")
		if !strings.HasPrefix(token, "-") && i > 0 {
			if strings.Contains(line[i-1], "=") {
				continue
			}
			name = line[i-1] // "--flag", "value"
		}
		if strings.HasPrefix(name, "-") {
			names = append(names, strings.TrimLeft(name, "-"))
		}
	}
	for _, e := range c.Env {
		if leadsThere(e.Value) && !slices.Contains(standard, e.Name) {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}
