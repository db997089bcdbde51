package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// shop makes a Service with one port without a name, its Deployment, an Ingress, and in another
// namespace a ConfigMap that refers to it.
func shop(t *testing.T) (ns, other string) {
	t.Helper()
	ns, other = newNamespace(t, "plan", nil), newNamespace(t, "plan-other", nil)
	labels := map[string]string{"app": "web"}
	_, err := admin.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example/web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.CoreV1().ConfigMaps(other).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "client"}, Data: map[string]string{"url": "http://web." + ns}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.NetworkingV1().Ingresses(ns).Create(t.Context(), &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return ns, other
}

func planned(t *testing.T, kubeconfig, ns string) plan.Service {
	t.Helper()
	r := cliAs(t, kubeconfig, "plan", "-n", ns, "-o", "json")
	require.Zero(t, r.code, r.err)
	var p plan.Plan
	require.NoError(t, json.Unmarshal([]byte(r.out), &p))
	require.Len(t, p.Services, 1)
	return p.Services[0]
}

// TestPlanIsApplied: the command of the steps adds a port, the other port stays as it was, and nothing more is asked for. What
// plan --apply does is tested where the other programs run: test/integration/lifecycle.
func TestPlanIsApplied(t *testing.T) {
	ns, other := shop(t)
	s := planned(t, plane.KubeconfigFile(), ns)
	require.Equal(t, plan.WayPort, s.Way)
	assert.Equal(t, []string{"Deployment/web"}, s.Workloads)
	require.Len(t, s.References, 2)
	var from []string // ordered by names of namespaces, which are random
	for _, r := range s.References {
		from = append(from, r.Kind+" "+r.Namespace+"/"+r.Name)
	}
	assert.ElementsMatch(t, []string{"ConfigMap " + other + "/client", "Ingress " + ns + "/web"}, from)
	assert.Equal(t, 2, s.ToMove)

	r := cli(t, "plan", "-n", ns, "--apply", "--yes", "--system-namespace", other) // where nothing runs
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "no signer runs")
	assert.Contains(t, r.err, ". Nothing was changed\n")
	assert.Len(t, planned(t, plane.KubeconfigFile(), ns).Ports, 1)

	var data []byte
	for _, step := range s.Steps {
		if _, patch, ok := strings.Cut(step.Command, " -p '"); ok {
			data = []byte(strings.TrimSuffix(patch, "'"))
		}
	}
	svc, err := admin.CoreV1().Services(ns).Patch(t.Context(), "web", types.StrategicMergePatchType, data, metav1.PatchOptions{})
	require.NoError(t, err)
	assert.Equal(t, "web-tls", svc.Annotations["servingcert.dev/secret-name"])
	assert.Equal(t, []corev1.ServicePort{
		{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP},
		{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080"), Protocol: corev1.ProtocolTCP},
	}, svc.Spec.Ports)
	assert.Equal(t, map[string]string{"app": "web"}, svc.Spec.Selector)

	after := planned(t, plane.KubeconfigFile(), ns)
	assert.Equal(t, plan.WayRollout, after.Way, "no pod has the proxy")
	assert.Nil(t, after.Patch)
	assert.Equal(t, 2, after.ToMove)
}

// TestPlanWithTheRightsOfANamespace: what cannot be read is said, and the rest is planned.
func TestPlanWithTheRightsOfANamespace(t *testing.T) {
	ns, _ := shop(t)
	kubeconfig := user(t, ns+"-planner")
	permit(t, ns, ns+"-planner", rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{"", "apps", "batch", "networking.k8s.io"}, Resources: []string{"*"}})
	s := planned(t, kubeconfig, ns)
	assert.Equal(t, plan.WayPort, s.Way)
	require.Len(t, s.References, 1)
	assert.Equal(t, "Ingress", s.References[0].Kind)
	r := cliAs(t, kubeconfig, "plan", "-n", ns)
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "\n  EndpointSlices: this user may not list them, so it is unknown whether ready pods serve the ports\n")
	assert.Contains(t, r.out, "\nThis user lacks permissions that the steps need:\n  patch namespaces in "+ns+"\n  patch services in "+ns+"\n  patch deployments in "+ns+"\n")
	assert.Contains(t, r.out, "\n  ConfigMaps outside of namespace "+ns+": this user may not list them\n")
	r = cliAs(t, kubeconfig, "plan")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "list Services: services is forbidden")
	for _, which := range [][]string{{"-n", ns}, {"web", "-n", ns}} {
		r = cliAs(t, kubeconfig, append([]string{"plan", "--apply", "--yes"}, which...)...)
		assert.Equal(t, 1, r.code, which)
		assert.Contains(t, r.out, "\nThis user lacks permissions that the steps need:\n", which)
		assert.Contains(t, r.err, "this user lacks permissions. Nothing was changed", which)
	}
	namespace, err := admin.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, namespace.Labels[api.LabelInject])
	svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Len(t, svc.Spec.Ports, 1)
}
