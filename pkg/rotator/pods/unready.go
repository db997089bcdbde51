package pods

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// partProbes is what the webhook's status says of a container whose probes it changed to
// HTTPS.
const partProbes = "probes"

// Unready is a container with an attempt whose probes the webhook changed to HTTPS, and that
// does not pass them: it is not ready, or was restarted and no readiness probe shows that
// it serves.
type Unready struct {
	Container string
	// Started is when its run began, or its latest run if it does not run. Then Ended is
	// when that ended.
	Started, Ended time.Time
	// Waiting: the kubelet waits before it starts the container again (CrashLoopBackOff).
	Waiting bool
	Ports   []uint16 // that its probes ask by HTTPS, sorted
}

// unreadyOf returns the first such container of the pod, nil if there is none. s is the
// webhook's status, and t the pod's template.
func unreadyOf(pod *corev1.Pod, s api.InjectionStatus, t *Template) *Unready {
	for _, a := range t.ContainerAttempts() {
		if a.Withheld || !slices.Contains(strings.Split(s.Containers[a.Container], ","), partProbes) {
			continue
		}
		c := statusOf(pod, a.Container)
		if c == nil {
			continue
		}
		u := Unready{Container: strings.Clone(c.Name)}
		ports, proven := httpsPorts(pod, c.Name)
		switch ended := endOf(c); {
		case len(ports) == 0:
			continue
		case c.State.Running != nil && c.Ready && (c.RestartCount == 0 || proven):
			continue
		case c.State.Running != nil:
			u.Started = c.State.Running.StartedAt.Time
		case ended != nil:
			u.Started, u.Ended = ended.StartedAt.Time, ended.FinishedAt.Time
			u.Waiting = c.State.Waiting != nil && c.State.Waiting.Reason == reasonBackOff
		default:
			continue
		}
		u.Ports = ports
		return &u
	}
	return nil
}

// statusOf returns the status of the container, or nil.
func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		if i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == container }); i >= 0 {
			return &statuses[i]
		}
	}
	return nil
}

// httpsPorts returns the ports that the container's probes ask by HTTPS, and whether its
// readiness probe is one of them, which proves that it serves if it is ready.
func httpsPorts(pod *corev1.Pod, container string) (ports []uint16, proven bool) {
	containers := api.RunningContainers(pod)
	i := slices.IndexFunc(containers, func(c api.ContainerRef) bool { return c.Name == container })
	if i < 0 {
		return nil, false
	}
	c := containers[i]
	for _, p := range []*corev1.Probe{c.ReadinessProbe, c.StartupProbe, c.LivenessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Scheme != corev1.URISchemeHTTPS || p.HTTPGet.Host != "" {
			continue
		}
		if n := portOf(c.Container, p.HTTPGet.Port); n > 0 && n < 1<<16 {
			ports, proven = append(ports, uint16(n)), proven || p == c.ReadinessProbe
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), proven
}

func portOf(c *corev1.Container, port intstr.IntOrString) int32 {
	if port.Type == intstr.Int {
		return port.IntVal
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return p.ContainerPort
		}
	}
	return 0
}
