package rotator

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// proxied makes a Service with a plaintext port, and one for which its pods get a proxy.
func proxied(t *testing.T, namespace string) *corev1.Service {
	t.Helper()
	svc := harness.Service(namespace, "web")
	svc.Spec.Ports = []corev1.ServicePort{
		{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
		{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080")},
	}
	create(t, svc)
	return svc
}

// TestEndpointsOfAProxy: a pod with the proxy is an endpoint of its port, and one without it of
// the plaintext port alone. Before Kubernetes 1.33, kube-controller-manager does not look for
// names of ports at native sidecars.
func TestEndpointsOfAProxy(t *testing.T) {
	ns := harness.TemporaryNamespace(t, admin, true)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	create(t, node)
	svc := proxied(t, ns)
	before := newPod(ns, "before", "web")
	before.Labels[api.LabelInject] = api.InjectDisabled
	after := newPod(ns, "after", "web")
	for i, pod := range []*corev1.Pod{before, after} {
		pod.Spec.NodeName = node.Name
		create(t, pod)
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.0.%d", i+1), PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.0.0.%d", i+1)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		require.NoError(t, admin.Status().Update(t.Context(), pod))
	}
	proxy, ok := api.ProxyOf(after)
	require.True(t, ok)
	want := []string{"http 8080: 10.0.0.1", "http 8080: 10.0.0.2", fmt.Sprintf("https %d: 10.0.0.2", proxy.Listeners[0].Port)}
	harness.Eventually(t, func() error {
		got, err := endpoints(t.Context(), svc)
		if err == nil && !slices.Equal(want, got) {
			err = fmt.Errorf("endpoints are %q, want %q", got, want)
		}
		return err
	})
}

// endpoints returns the endpoints of a Service as "PORT NUMBER: ADDRESS", sorted.
func endpoints(ctx context.Context, svc *corev1.Service) ([]string, error) {
	var slicesOf discoveryv1.EndpointSliceList
	if err := admin.List(ctx, &slicesOf, client.InNamespace(svc.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: svc.Name}); err != nil {
		return nil, err
	}
	var out []string
	for _, s := range slicesOf.Items {
		for _, port := range s.Ports {
			for _, e := range s.Endpoints {
				out = append(out, fmt.Sprintf("%s %d: %s", *port.Name, *port.Port, e.Addresses[0]))
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// TestAQuotaAcceptsAProxy: one that demands requests and limits of each container accepts the
// pod that has them.
func TestAQuotaAcceptsAProxy(t *testing.T) {
	ns := harness.TemporaryNamespace(t, admin, true)
	proxied(t, ns)
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	create(t, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "compute"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		corev1.ResourceRequestsCPU: resource.MustParse("4"), corev1.ResourceRequestsMemory: resource.MustParse("4Gi"),
		corev1.ResourceLimitsCPU: resource.MustParse("8"), corev1.ResourceLimitsMemory: resource.MustParse("8Gi"),
	}}})
	without := newPod(ns, "without", "web")
	harness.Eventually(t, func() error { // the admission plugin reads quotas from a cache of its own
		if err := admin.Create(t.Context(), without.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("quota is not in force: %w", err)
		}
		return nil
	})
	for name, requirements := range map[string]corev1.ResourceRequirements{
		"burstable":  {Requests: amounts("100m", "64Mi"), Limits: amounts("1", "128Mi")},
		"guaranteed": {Requests: amounts("100m", "64Mi"), Limits: amounts("100m", "64Mi")},
		"limits":     {Limits: amounts("100m", "64Mi")},
	} {
		pod := newPod(ns, name, "web")
		pod.Spec.Containers[0].Resources = requirements
		create(t, pod)
		_, ok := api.ProxyOf(pod)
		require.True(t, ok, name)
		want := corev1.PodQOSGuaranteed
		if name == "burstable" {
			want = corev1.PodQOSBurstable
		}
		require.Equal(t, want, pod.Status.QOSClass, name)
	}
}
