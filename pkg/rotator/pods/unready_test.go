package pods

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestWhatIsKeptOfAPodThatIsNotReady(t *testing.T) {
	asks := func(scheme corev1.URIScheme, port intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Scheme: scheme, Port: port}}}
	}
	started := metav1.NewTime(rotatortest.Noon)
	pod := func(change rotatortest.Change) *corev1.Pod {
		status := api.InjectionStatus{Containers: map[string]string{"app": "files,flags,probes"}, Attempts: map[string]string{"app": someAttempt}}
		return rotatortest.Pod(withStatus(status), func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{
				Name: "app", Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443}},
				ReadinessProbe: asks(corev1.URISchemeHTTPS, intstr.FromString("https")), LivenessProbe: asks(corev1.URISchemeHTTPS, intstr.FromInt32(443)),
				StartupProbe: asks(corev1.URISchemeHTTP, intstr.FromInt32(80)),
			}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
		}, change)
	}
	assert.Equal(t, &Unready{Container: "app", Started: rotatortest.Noon, Ports: []uint16{443, 8443}}, FactsOf(pod(nil)).Unready)
	restarted := func(ready bool) rotatortest.Change {
		return func(p *corev1.Pod) {
			s := &p.Status.ContainerStatuses[0]
			s.RestartCount, s.Ready = 1, ready
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(rotatortest.Noon.Add(-time.Minute)), FinishedAt: started}
		}
	}
	noReadiness := func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = nil }
	waits := func(reason string) rotatortest.Change {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
		}
	}
	assert.Equal(t, &Unready{Container: "app", Started: rotatortest.Noon, Ports: []uint16{443}}, FactsOf(pod(rotatortest.All(restarted(true), noReadiness))).Unready)
	assert.Equal(t, &Unready{Container: "app", Started: rotatortest.Noon.Add(-time.Minute), Ended: rotatortest.Noon, Waiting: true, Ports: []uint16{443, 8443}},
		FactsOf(pod(rotatortest.All(restarted(false), waits("CrashLoopBackOff")))).Unready)
	assert.False(t, FactsOf(pod(rotatortest.All(restarted(false), waits("ContainerCreating")))).Unready.Waiting)
	for name, change := range map[string]rotatortest.Change{
		"restarted, and its readiness probe shows that it serves": restarted(true),
		"ready for the first time":                                rotatortest.All(noReadiness, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true }),
		"ready":                                                   func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true },
		"does not run":                                            func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running = nil },
		"another":                                                 func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Name = "proxy" },
		"not injected":                                            rotatortest.Label(api.LabelInjected, "false"),
		"withheld":                                                withStatus(api.InjectionStatus{Containers: map[string]string{"app": "files,probes"}, Withheld: map[string]string{"app": someAttempt}}),
		"probes as were":                                          withStatus(api.InjectionStatus{Containers: map[string]string{"app": "files,flags"}, Attempts: map[string]string{"app": someAttempt}}),
		"no probes": func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe, p.Spec.Containers[0].LivenessProbe = nil, nil
		},
		"another host": func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe.HTTPGet.Host, p.Spec.Containers[0].LivenessProbe.HTTPGet.Host = "a", "b"
		},
		"no such port": func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].Ports = nil, nil
		},
	} {
		assert.Nil(t, FactsOf(pod(change)).Unready, name)
	}
}
