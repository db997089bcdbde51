package apply

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// newGuarded is a world whose Service has a TLS port, the list of clients, and a pod whose proxy has the other one. The
// plan is that of the list alone.
func newGuarded(t *testing.T, list, admits string) *world {
	t.Helper()
	w := newWorld(t)
	svc := w.svc(t)
	svc.Annotations = map[string]string{api.AnnotationSecretName: "web-tls"}
	if list != "" {
		svc.Annotations[api.AnnotationClients] = list
	}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("sc-tls-8080")}}
	_, err := w.CoreV1().Services("shop").Update(t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(t, err)
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{api.AnnotationAdmits: admits}},
		Spec:       corev1.PodSpec{InitContainers: []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--listen=sc-tls-8080=15444:8080", "--clients=/c"}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	_, err = w.CoreV1().Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	b := plan.New([]*corev1.Service{svc}, nil, plan.Options{})
	b.AddWorkload(plan.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}}}})
	b.AddWorkload(plan.Workload{Kind: "Deployment", Namespace: "shop", Name: "cart", Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "cart"}, Annotations: map[string]string{api.AnnotationConnect: "web"}},
		Spec:       corev1.PodSpec{ServiceAccountName: "cart", Containers: []corev1.Container{{Name: "c", Image: "i", Args: []string{"web:443"}}}},
	}})
	b.AddPod("Deployment", "web", pod)
	b.AddCalled("shop", "web", plan.Called{})
	w.service = b.Plan().Services[0]
	require.NotNil(t, w.service.Guard)
	require.Equal(t, 1, w.service.Guard.Wave, w.service.Guard.Why)
	w.applier.Called = func(context.Context, string, string) (plan.Called, error) { return plan.Called{}, nil }
	return w
}

// TestPodsWithoutAList: what a Service says about its clients has no effect on them.
func TestPodsWithoutAList(t *testing.T) {
	w := newGuarded(t, "", "sc-tls-8080=open")
	old, err := w.CoreV1().Pods("shop").Get(t.Context(), "web-1", metav1.GetOptions{})
	require.NoError(t, err)
	old.Name, old.Spec.InitContainers = "web-0", nil
	require.NoError(t, w.Tracker().Add(old))
	w.rotate(t, "sc-tls-8080=shop/cart,watch")
	require.NoError(t, w.run(t))
	assert.Equal(t, []string{"shop/web"}, w.applier.Unguarded)
	assert.Contains(t, w.out.String(), "pod web-0 has no proxy with a list, and admits all: roll it out\n")
}

// rotate writes the annotation of the pod when the Service is patched, as the rotator does.
func (w *world) rotate(t *testing.T, admits string) {
	t.Helper()
	pod, err := w.CoreV1().Pods("shop").Get(t.Context(), "web-1", metav1.GetOptions{})
	require.NoError(t, err)
	w.whenPatched(func() {
		pod.Annotations[api.AnnotationAdmits] = admits
		require.NoError(t, w.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, "shop"))
	})
}

func TestTheListIsSet(t *testing.T) {
	w := newGuarded(t, "", "sc-tls-8080=open")
	w.rotate(t, "sc-tls-8080=shop/cart,watch")
	require.NoError(t, w.run(t))
	assert.Equal(t, "watch, shop/cart", w.svc(t).Annotations[api.AnnotationClients])
	assert.Equal(t, "service shop/web: annotation servingcert.dev/clients=watch, shop/cart\nservice shop/web: its pods have the list of clients\n", w.out.String())
	assert.Empty(t, w.applier.Unguarded)

	w = newGuarded(t, "shop/cart, watch", "sc-tls-8080=shop/cart,watch")
	w.rotate(t, "sc-tls-8080=shop/cart")
	w.applier.DryRun = true
	w.PrependReactor("patch", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		assert.Equal(t, []string{metav1.DryRunAll}, a.(clienttesting.PatchActionImpl).PatchOptions.DryRun)
		return true, &corev1.Service{}, nil
	})
	require.NoError(t, w.run(t))
	assert.Equal(t, "service shop/web: annotation servingcert.dev/clients=shop/cart (dry run)\n", w.out.String())
}

// TestWatchIsTakenOut only if nobody would be refused at that moment, and pods are seen to have the list.
func TestWatchIsTakenOut(t *testing.T) {
	w := newGuarded(t, "shop/cart, watch", "sc-tls-8080=shop/cart,watch")
	w.applier.Called = func(context.Context, string, string) (plan.Called, error) {
		return plan.Called{Refuses: "sc-tls-8080: shop/late"}, nil
	}
	require.NoError(t, w.run(t))
	assert.Equal(t, "shop/cart, watch", w.svc(t).Annotations[api.AnnotationClients])
	assert.Equal(t, []string{"shop/web"}, w.applier.Unguarded)
	assert.Equal(t, "service shop/web: annotation servingcert.dev/clients was not set: sc-tls-8080: shop/late\n", w.out.String())

	w = newGuarded(t, "shop/cart, watch", "sc-tls-8080=shop/cart,watch") // and no rotator writes the pod's annotation
	require.NoError(t, w.run(t))
	assert.Equal(t, "shop/cart", w.svc(t).Annotations[api.AnnotationClients])
	assert.Equal(t, []string{"shop/web"}, w.applier.Unguarded)
	assert.Contains(t, w.out.String(), "its pods were not seen to have the list of clients: pod web-1 still has annotation servingcert.dev/admits=sc-tls-8080=shop/cart,watch")
}

func TestTheListIsLeft(t *testing.T) {
	w := newGuarded(t, "", "sc-tls-8080=open")
	svc := w.svc(t)
	svc.Annotations[api.AnnotationClients] = "shop/mine"
	_, err := w.CoreV1().Services("shop").Update(t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.EqualError(t, w.run(t), "Service shop/web: annotation servingcert.dev/clients was changed since the plan was made: run the command again")
	assert.Equal(t, "shop/mine", w.svc(t).Annotations[api.AnnotationClients])

	w = newGuarded(t, "", "sc-tls-8080=open")
	w.service.Guard.After = []string{"shop/Deployment/cart"}
	w.applier.Unconnected = []string{"shop/Deployment/cart"}
	require.NoError(t, w.run(t))
	assert.Equal(t, []string{"shop/web"}, w.applier.Unguarded)
	assert.NotContains(t, w.svc(t).Annotations, api.AnnotationClients)

	w = newGuarded(t, "", "sc-tls-8080=open")
	w.applier.Unseen = []string{"shop/web"}
	require.NoError(t, w.run(t))
	assert.Equal(t, "service shop/web: annotation servingcert.dev/clients was not set: it was not seen to serve TLS\n", w.out.String())

	w = newGuarded(t, "", "sc-tls-8080=open")
	w.service.Guard.After = []string{"shop/CronJob/cart"}
	p := plan.Plan{Services: []plan.Service{w.service}, Clients: []plan.Client{{Namespace: "shop", Workload: "CronJob/cart", Wave: 1}}}
	assert.Empty(t, Chosen(p, true))
	assert.Equal(t, "shop/CronJob/cart is left alone, and has to connect first", GuardSkipped(p, w.service, true))
	p.Services[0].ManagedBy = "Flux"
	assert.Contains(t, GuardSkipped(p, p.Services[0], true), "Flux manages it")
}
