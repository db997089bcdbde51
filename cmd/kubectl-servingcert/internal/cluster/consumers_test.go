package cluster

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// A pod that the kubelet held back until its first certificate existed is older than the
// certificate, but has not reloaded: the start of the program counts.
func TestConsumerIsAsOldAsItsProgram(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	consumer, _ := consumerOf(pod, nil)
	assert.True(t, consumer.Started.IsZero(), "nothing runs yet")
	for i, state := range []corev1.ContainerState{
		{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(2 * time.Minute))}},
		{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(time.Minute))}},
		{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	} {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{State: state})
		consumer, _ = consumerOf(pod, nil)
		assert.Equal(t, noon.Add(2*time.Minute), consumer.Started, "%d", i)
	}
}

// distributed is the status of a CA whose second root was distributed a day before now.
func distributed(now time.Time) api.CAStatus {
	return api.CAStatus{Generations: []api.CAGenerationRecord{
		{Number: 1, Origin: api.OriginOwn, Root: strings.Repeat("a", 64)},
		{Number: 2, Origin: api.OriginOwn, Root: strings.Repeat("b", 64), TrustedAt: now.Add(-24 * time.Hour), SignsSince: now.Add(-24 * time.Hour)},
	}}
}

// A client remains one of an older bundle when another container of its pod is restarted.
func TestRestartsOfOtherContainers(t *testing.T) {
	now := time.Now()
	runs := func(name string, started time.Time) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}}}
	}
	old, young := now.Add(-48*time.Hour), now.Add(-time.Minute)
	app := corev1.Container{Name: "app", VolumeMounts: []corev1.VolumeMount{{Name: "ca"}}}
	for name, tt := range map[string]struct {
		change rotatortest.Change
		want   int
	}{
		"a container": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{app, {Name: "log"}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{runs("app", old), runs("log", young)}
		}, 1},
		"a native sidecar": {func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = []corev1.Container{app}, []corev1.Container{{Name: "log"}}
			p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = []corev1.ContainerStatus{runs("app", old)}, []corev1.ContainerStatus{runs("log", young)}
		}, 1},
		"restarted": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{app, {Name: "log"}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{runs("app", young), runs("log", old)}
		}, 0},
	} {
		consumer, ok := consumerOf(rotatortest.Pod(rotatortest.BundleVolume(), tt.change), nil)
		assert.True(t, ok)
		assert.Len(t, status.CountOldClients(distributed(now), []status.Consumer{consumer}, now), tt.want, name)
	}
}

// Who may not list pods is told that the clients are unknown.
func TestOldClientsNotSeen(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden","reason":"Forbidden","code":403}`))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	c := &Cluster{Client: client}
	published := distributed(time.Now()).Data()
	for namespace, where := range map[string]string{"": "all namespaces", "shop": "namespace shop"} {
		old, notSeen, err := c.OldClients(t.Context(), namespace, published)
		require.NoError(t, err)
		assert.Empty(t, old)
		assert.Equal(t, "clients that may hold an older CA bundle: this user may not list pods in "+where, notSeen)
	}
	assert.Equal(t, 2, asked)
	_, notSeen, err := c.OldClients(t.Context(), "", nil)
	require.NoError(t, err)
	assert.Empty(t, notSeen, "there is one root")
	assert.Equal(t, 2, asked)
}
