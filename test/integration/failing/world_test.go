package failing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// place is a namespace with Service web, which asks for Secret web-tls.
type place struct {
	t    *testing.T
	name string
	web  *corev1.Service
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{t: t, name: harness.NewNamespace(t, admin, "shop-", true)}
	p.web = harness.Service(p.name, "web")
	p.web.Spec.ClusterIP = corev1.ClusterIPNone
	require.NoError(t, admin.Create(t.Context(), p.web))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.WithoutCancel(t.Context()), p.web)) })
	return p
}

// crashes says of a pod what the kubelet does when its container has exited a second
// after its fourth start, and waits.
func (p place) crashes(pod *corev1.Pod, message string) {
	p.t.Helper()
	pod.Status = harness.Crashing(message)
	require.NoError(p.t, admin.Status().Update(p.t.Context(), pod))
}

// runs says of a pod what the kubelet does when its container was started that long ago, and is
// ready or not.
func (p place) runs(pod *corev1.Pod, ago time.Duration, ready bool) {
	p.t.Helper()
	started := metav1.NewTime(time.Now().Add(-ago))
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &started, PodIP: "127.9.9.9", PodIPs: []corev1.PodIP{{IP: "127.9.9.9"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: started}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Ready: ready, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		}},
	}
	require.NoError(p.t, admin.Status().Update(p.t.Context(), pod))
}

// says waits until condition PodsHealthy is False for the reason, and returns its message.
func (p place) says(reason string) (message string) {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		if err := admin.Get(p.t.Context(), client.ObjectKeyFromObject(p.web), p.web); err != nil {
			return err
		}
		c := api.Condition(p.web, api.ConditionPodsHealthy)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return fmt.Errorf("%s is %+v, want False %s", api.ConditionPodsHealthy, c, reason)
		}
		message = c.Message
		return nil
	})
	return message
}

// saysNothing waits until condition PodsHealthy is gone.
func (p place) saysNothing() {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		if err := admin.Get(p.t.Context(), client.ObjectKeyFromObject(p.web), p.web); err != nil {
			return err
		}
		if c := api.Condition(p.web, api.ConditionPodsHealthy); c != nil {
			return fmt.Errorf("%s is %+v, want none", api.ConditionPodsHealthy, c)
		}
		return nil
	})
}

func (p place) exists(pod *corev1.Pod) bool {
	p.t.Helper()
	var now corev1.Pod
	err := admin.Get(p.t.Context(), client.ObjectKeyFromObject(pod), &now)
	require.NoError(p.t, client.IgnoreNotFound(err))
	return err == nil && now.UID == pod.UID && now.DeletionTimestamp == nil
}

// told waits for an event of the reason about the object of that kind and name, and
// returns what it says.
func (p place) told(reason, kind, name string) string {
	p.t.Helper()
	return harness.Told(p.t, admin, p.name, reason, kind+" "+name).Note
}

// counted waits until so many workloads of the namespace are counted as failing.
func (p place) counted(r *harness.Rotator, want float64) {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		if n := r.Metrics(p.t).Sum("servingcert_failing_workloads", "namespace", p.name); n != want {
			return fmt.Errorf("%v failing workloads, want %v", n, want)
		}
		return nil
	})
}
