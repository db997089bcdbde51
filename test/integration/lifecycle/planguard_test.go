package lifecycle

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestPlanListsClients: where pods have identities, the list of clients is set once they connect; and watch stays while
// pods do not say who called.
func TestPlanListsClients(t *testing.T) {
	harness.Needs(t, plane.AdminConfig(), controlplane.PodCertificates)
	startInjecting(t, "--trust-domain=example.com")
	startNode(t)
	const name = "guarded"
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	createIn(t, name, "web")
	labels := map[string]string{"app": "cart"}
	require.NoError(t, admin.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "cart"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "app", Image: "registry.example/cart", Args: []string{"--upstream=http://web"}}}},
		}}}))
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}}}
	require.NoError(t, admin.Create(t.Context(), svc))
	harness.Eventually(t, func() error { return ready(t.Context(), name, "web") })
	out, code := planOf(t, "-n", name, "--apply", "--yes", "--trust-domain=example.com")
	assert.Equal(t, 1, code, out)
	assert.Contains(t, out, "wave 3  guarded/web: annotation servingcert.dev/clients=watch, guarded/default, which refuses nobody\n")
	assert.Contains(t, out, "service guarded/web: annotation servingcert.dev/clients was not set: guarded/Deployment/cart was not seen to connect\n")

	seen(t, name, "web")
	type result struct {
		out  string
		code int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		out, code, err := runPlan(t.Context(), "-n", name, "--apply", "--yes")
		done <- result{out, code, err}
	}()
	harness.Eventually(t, func() error { // the list is written, and then the rotator writes it to the pods
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(svc), svc); err != nil {
			return err
		}
		if list := svc.Annotations[api.AnnotationClients]; list != "watch, guarded/default" {
			return fmt.Errorf("the list is %q", list)
		}
		return nil
	})
	pods := &corev1.PodList{}
	require.NoError(t, admin.List(t.Context(), pods, client.InNamespace(name), client.MatchingLabels{"app": "web"}))
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"sc-tls-8080=guarded/default,watch"}}}`, api.AnnotationAdmits)
	for i := range pods.Items {
		require.NoError(t, admin.Patch(t.Context(), &pods.Items[i], client.RawPatch(types.MergePatchType, patch)))
	}
	got := <-done
	require.NoError(t, got.err)
	assert.Zero(t, got.code, got.out)
	assert.Contains(t, got.out, "service guarded/web: its pods have the list of clients\n")

	out, code = planOf(t, "-n", name)
	assert.Zero(t, code, out)
	assert.Regexp(t, `\n-     guarded    web      -                sc-tls-8080: not all pods of the Service have answered`, out)
	out, code = planOf(t, "-n", name, "--apply", "--yes")
	assert.Zero(t, code, out)
	assert.Contains(t, out, "nothing to do for --apply\n")
}
