package deploy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// The words of the policy.
const (
	onlyInjected   = "may delete only pods with label servingcert.dev/injected"
	onlyCrashing   = "may delete only pods with a container in CrashLoopBackOff"
	onlyControlled = "may delete only pods that a controller makes anew"
)

func injected(p *corev1.Pod) { p.Labels[api.LabelInjected] = "true" }

// controlled gives the pod a controller, of a kind that the cluster does not have, so
// that its garbage collector leaves the pod alone.
func controlled(p *corev1.Pod) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Thing", Name: "web", UID: types.UID("0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77"), Controller: &yes}}
}

func ownedOnly(p *corev1.Pod) {
	controlled(p)
	p.OwnerReferences[0].Controller = nil
}

func waitingFor(reason string) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}}
}

// podInState makes a pod whose status says that.
func podInState(t *testing.T, namespace string, status corev1.PodStatus, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := podWith(t, namespace, nil, changes...)
	pod.Status = status
	require.NoError(t, adminClient(t).Status().Update(t.Context(), pod))
	return pod
}

func TestWhichPodsTheRotatorMayDelete(t *testing.T) {
	rotator, admin, namespace := as(t, "servingcert-rotator"), adminClient(t), newNamespace(t, false)
	crashing := waitingFor("CrashLoopBackOff")
	probe := podInState(t, namespace, crashing)
	denied(t, func() error { return rotator.Delete(t.Context(), probe.DeepCopy(), client.DryRunAll) })
	sidecar := corev1.PodStatus{InitContainerStatuses: crashing.ContainerStatuses}
	running := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	ended := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}}}}
	unready, ready := *running.DeepCopy(), *running.DeepCopy()
	unready.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	ready.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	restarted := *ready.DeepCopy()
	restarted.ContainerStatuses[0].RestartCount = 1
	attempts := map[string]string{"c": "0a0a0a0a0a0a0a0a"}
	probed := api.InjectionStatus{Containers: map[string]string{"c": "files,flags,probes"}, Attempts: attempts}
	says := func(s api.InjectionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[api.AnnotationStatus] = s.Format() }
	}
	for _, test := range []struct {
		name    string
		status  corev1.PodStatus
		changes []func(*corev1.Pod)
		refusal string
	}{
		{"injected and crashing", crashing, []func(*corev1.Pod){injected, controlled}, ""},
		{"its native sidecar crashes", sidecar, []func(*corev1.Pod){injected, controlled}, ""},
		{"not injected", crashing, []func(*corev1.Pod){controlled}, onlyInjected},
		{"another value of the label", crashing, []func(*corev1.Pod){controlled, func(p *corev1.Pod) { p.Labels[api.LabelInjected] = "false" }}, onlyInjected},
		{"no status", corev1.PodStatus{}, []func(*corev1.Pod){injected, controlled}, onlyCrashing},
		{"running", running, []func(*corev1.Pod){injected, controlled}, onlyCrashing},
		{"ended", ended, []func(*corev1.Pod){injected, controlled}, onlyCrashing},
		{"its image is missing", waitingFor("ImagePullBackOff"), []func(*corev1.Pod){injected, controlled}, onlyCrashing},
		{"not ready for changed probes", unready, []func(*corev1.Pod){injected, controlled, says(probed)}, ""},
		{"not ready, and its probes are its own", unready, []func(*corev1.Pod){injected, controlled, says(api.InjectionStatus{Containers: map[string]string{"c": "flags"}, Attempts: attempts})}, onlyCrashing},
		{"not ready, and nothing was tried", unready, []func(*corev1.Pod){injected, controlled, says(api.InjectionStatus{Containers: probed.Containers})}, onlyCrashing},
		{"not ready for changed probes, and not injected", unready, []func(*corev1.Pod){controlled, says(probed)}, onlyInjected},
		{"not ready, and does not run yet", corev1.PodStatus{Conditions: unready.Conditions}, []func(*corev1.Pod){injected, controlled, says(probed)}, onlyCrashing},
		{"restarted for changed probes", restarted, []func(*corev1.Pod){injected, controlled, says(probed)}, ""},
		{"restarted, and its probes are its own", restarted, []func(*corev1.Pod){injected, controlled, says(api.InjectionStatus{Containers: map[string]string{"c": "flags"}, Attempts: attempts})}, onlyCrashing},
		{"restarted for changed probes, and bare", restarted, []func(*corev1.Pod){injected, says(probed)}, onlyControlled},
		{"ready", ready, []func(*corev1.Pod){injected, controlled, says(probed)}, onlyCrashing},
		{"bare", crashing, []func(*corev1.Pod){injected}, onlyControlled},
		{"owned, and not controlled", crashing, []func(*corev1.Pod){injected, ownedOnly}, onlyControlled},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := podInState(t, namespace, test.status, test.changes...)
			refusedWith(t, rotator.Delete(t.Context(), pod.DeepCopy(), client.DryRunAll), test.refusal)
		})
	}
	t.Run("not as it was seen", func(t *testing.T) {
		pod := podInState(t, namespace, crashing, injected, controlled)
		version := "1"
		assert.True(t, apierrors.IsConflict(rotator.Delete(t.Context(), pod.DeepCopy(), client.Preconditions{UID: &pod.UID, ResourceVersion: &version})))
		require.NoError(t, rotator.Delete(t.Context(), pod.DeepCopy(), client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}))
	})
	t.Run("many at once", func(t *testing.T) {
		assert.ErrorContains(t, rotator.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(namespace)), "cannot deletecollection resource")
	})
	t.Run("by eviction", func(t *testing.T) {
		assert.ErrorContains(t, rotator.SubResource("eviction").Create(t.Context(), probe.DeepCopy(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probe.Name}}), `cannot create resource "pods/eviction"`)
	})
	t.Run("somebody else", func(t *testing.T) {
		require.NoError(t, admin.Delete(t.Context(), probe.DeepCopy()))
	})
}
