package flags

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// runs says of a pod what the kubelet does when its container has run for half a minute
// and its probe fails, with changes.
func (p place) runs(pod *corev1.Pod, address string, changes ...func(*corev1.PodStatus)) {
	p.t.Helper()
	started := metav1.NewTime(time.Now().Add(-30 * time.Second))
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &started, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: started}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}},
	}
	for _, change := range changes {
		change(&pod.Status)
	}
	require.NoError(p.t, admin.Status().Update(p.t.Context(), pod))
}

// serve has an HTTP server listen on an address of its own until the test ends.
func serve(t *testing.T, address string, tls bool) int32 {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = server.Listener.Close()
	server.Listener = l
	if tls {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// TestFlagsThatAProgramIgnoresAreTakenBack: it serves plaintext where its probes ask by
// HTTPS.
func TestFlagsThatAProgramIgnoresAreTakenBack(t *testing.T) {
	startRotator(t)
	p := newPlace(t)
	probed := func(port int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			c := &pod.Spec.Containers[0]
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: port})
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)}}}
		}
	}
	asks := func(port int32) { // the Service leads to the port
		p.web.Spec.Ports[0].TargetPort = intstr.FromInt32(port)
		require.NoError(t, admin.Update(t.Context(), p.web))
	}
	secure := serve(t, "127.9.9.7", true)
	asks(secure)
	slow := p.made("web-1", probed(secure), func(pod *corev1.Pod) { pod.Spec.Containers[0].Args = []string{"--slow"} })
	p.runs(slow, "127.9.9.7")

	plain := serve(t, "127.9.9.8", false)
	asks(plain)
	ignores := p.made("web-2", probed(plain))
	assert.Equal(t, corev1.URISchemeHTTPS, ignores.Spec.Containers[0].ReadinessProbe.HTTPGet.Scheme)
	p.runs(ignores, "127.9.9.8")

	assert.Len(t, p.says(metav1.ConditionFalse, api.FlagsWithheld), 1)
	assert.Contains(t, p.told(api.FlagsWithheld, "Deployment", "web"), "pod web-2 answers in plaintext on port")
	p.gone(ignores)
	assert.True(t, p.exists(slow), "it serves TLS")
	after := p.made("web-3", probed(plain))
	assert.Len(t, after.Spec.Containers[0].Args, 1)
	assert.NotEqual(t, corev1.URISchemeHTTPS, after.Spec.Containers[0].ReadinessProbe.HTTPGet.Scheme)
}

// TestAProgramThatItsLivenessProbeKills: it is ready between two kills, and ignores its flags.
func TestAProgramThatItsLivenessProbeKills(t *testing.T) {
	startRotator(t)
	p := newPlace(t)
	plain := serve(t, "127.9.9.6", false)
	p.web.Spec.Ports[0].TargetPort = intstr.FromInt32(plain)
	require.NoError(t, admin.Update(t.Context(), p.web))
	pod := p.made("web-1", func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: plain})
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(plain)}}}
	})
	assert.Equal(t, corev1.URISchemeHTTPS, pod.Spec.Containers[0].LivenessProbe.HTTPGet.Scheme)
	// All of it is said at once: one that is not ready yet would be judged as that, and deleted.
	p.runs(pod, "127.9.9.6", func(status *corev1.PodStatus) {
		killed, now := metav1.NewTime(time.Now().Add(-2*time.Second)), metav1.Now()
		s := &status.ContainerStatuses[0]
		s.Ready, s.RestartCount = true, 1
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", StartedAt: s.State.Running.StartedAt, FinishedAt: killed}
		s.State.Running.StartedAt = now
		status.Conditions[0].Status = corev1.ConditionTrue
	})

	p.says(metav1.ConditionFalse, api.FlagsWithheld)
	p.gone(pod)
}
