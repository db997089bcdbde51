package webhook_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestConnect: Pod Security "restricted" accepts a pod whose calls go through its proxy, to Services of its own and of
// another namespace. What is not opted in is left out.
func TestConnect(t *testing.T) {
	restart(t, hook.dir, "--proxy-image=example.com/proxy")
	t.Cleanup(func() { restart(t, hook.dir) })
	shop := namespace(t, map[string]string{api.LabelInject: api.InjectEnabled, "pod-security.kubernetes.io/enforce": "restricted"})
	data, out := namespace(t, enabled), namespace(t, nil)
	for ns, name := range map[string]string{shop: "api", data: "db", out: "other"} {
		svc := webService(name)
		svc.Spec.Ports = []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "tls", Port: 444, TargetPort: intstr.FromString("sc-tls-8080")},
		}
		createService(t, t, ns, svc)
	}
	pod := webPod("cart")
	pod.Annotations = map[string]string{api.AnnotationConnect: "api, db." + data + ":80, other." + out}
	yes, no := true, false
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}

	got, err := client.CoreV1().Pods(shop).Create(t.Context(), pod, dryRun)
	require.NoError(t, err)
	require.Len(t, got.Spec.HostAliases, 2, "also if no informer has seen the Services yet")
	proxy, ok := api.ProxyOf(got)
	require.True(t, ok)
	wanted := map[string]bool{}
	for _, c := range proxy.Connects {
		wanted[c.Host+" "+c.String()[len(c.Address):]] = true
	}
	assert.Equal(t, map[string]bool{
		"api." + shop + ".svc :80=api." + shop + ".svc:444,http": true, "api." + shop + ".svc :444=api." + shop + ".svc:444,either": true,
		"db." + data + ".svc :80=db." + data + ".svc:444,http": true,
	}, wanted)
	assert.Equal(t, []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}, got.Spec.SecurityContext.Sysctls)
	assert.Contains(t, got.Annotations[api.AnnotationStatus], "NotConnected: ")
	assert.Contains(t, got.Annotations[api.AnnotationStatus], "other."+out+": no Service of that name requests a certificate")

	// The same for a pod that a Service selects, which the informers know.
	selected := webPod("own")
	selected.Annotations = map[string]string{api.AnnotationConnect: "late"}
	selected.Spec = *pod.Spec.DeepCopy()
	own := webService("own")
	createService(t, t, shop, own)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := client.CoreV1().Pods(shop).Create(t.Context(), selected, dryRun)
		require.NoError(c, err)
		assert.Equal(c, "files,env", partsOf(c, got, "web"))
	}, harness.Soon, 20*time.Millisecond)
	createService(t, t, shop, func() *corev1.Service {
		svc := webService("late")
		svc.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-9090")}}
		return svc
	}())
	at, err := client.CoreV1().Pods(shop).Create(t.Context(), selected, dryRun)
	require.NoError(t, err)
	require.Len(t, at.Spec.HostAliases, 1, "also if no informer has seen the Service yet")

	created, err := client.CoreV1().Pods(shop).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, got.Spec.HostAliases, created.Spec.HostAliases)

	_, err = client.CoreV1().Pods(shop).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bad", Annotations: map[string]string{api.AnnotationConnect: "http://api"}}, Spec: pod.Spec,
	}, dryRun)
	assert.ErrorContains(t, err, "must be a comma-separated list of Services")
}

// TestConnectOfANamespace: pods connect to the Services that the annotation of their Namespace lists, and Pod Security
// "restricted" and the API server accept a pod that connects to 50.
func TestConnectOfANamespace(t *testing.T) {
	restart(t, hook.dir, "--proxy-image=example.com/proxy")
	t.Cleanup(func() { restart(t, hook.dir) })
	ns := namespace(t, map[string]string{api.LabelInject: api.InjectEnabled, "pod-security.kubernetes.io/enforce": "restricted"})
	for i := range 50 {
		svc := webService(fmt.Sprintf("s%d", i))
		svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "tls", Port: 444, TargetPort: intstr.FromString("sc-tls-8080")}}
		createService(t, t, ns, svc)
	}
	_, err := client.CoreV1().Namespaces().Patch(t.Context(), ns, "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+api.AnnotationConnect+`":"*"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := client.CoreV1().Pods(ns).Create(t.Context(), restricted(webPod("cart")), dryRun)
		require.NoError(c, err)
		proxy, ok := api.ProxyOf(got)
		require.True(c, ok)
		assert.Len(c, proxy.Connects, 100)
		assert.Len(c, got.Spec.HostAliases, 50)
	}, harness.Soon, harness.Soon/100)
	created, err := client.CoreV1().Pods(ns).Create(t.Context(), restricted(webPod("cart")), metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Len(t, created.Spec.HostAliases, 50)
}

// TestAliasesOfIPv6Services: the API server accepts the only loopback address of IPv6.
func TestAliasesOfIPv6Services(t *testing.T) {
	ns, pod := namespace(t, nil), webPod("web")
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "::1", Hostnames: []string{"db", "db.data.svc", "api"}}}
	got, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, pod.Spec.HostAliases, got.Spec.HostAliases)
}
