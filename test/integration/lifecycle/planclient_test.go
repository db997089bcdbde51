package lifecycle

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestPlanConnectsAClient: once the Service is seen to serve TLS, and not before. After a change of its ports, the pods are listed.
func TestPlanConnectsAClient(t *testing.T) {
	startInjecting(t)
	startNode(t)
	const name = "connected"
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	createIn(t, name, "web")
	labels := map[string]string{"app": "cart"}
	require.NoError(t, admin.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "cart"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example/cart", Args: []string{"--upstream=http://web"}}}},
		}}}))
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}}}
	require.NoError(t, admin.Create(t.Context(), svc))
	harness.Eventually(t, func() error { return ready(t.Context(), name, "web") })

	out, code := planOf(t, "-n", name, "--apply", "--yes")
	assert.Equal(t, 1, code, out)
	assert.Contains(t, out, "wave 2  connected/Deployment/cart: annotation servingcert.dev/connect=web, roll out\n")
	assert.Contains(t, out, "connected/Deployment/cart: not connected: Service connected/web: it was not seen to serve TLS\n")
	assert.Empty(t, annotationOf(t, name))

	seen(t, name, "web")
	out, code = planOf(t, "-n", name, "--apply", "--yes")
	require.Zero(t, code, out)
	assert.Contains(t, out, "connected/Deployment/cart: the proxies of its pods connect to web.connected.svc\n")
	assert.Equal(t, "web", annotationOf(t, name))
	out, code = planOf(t, "-n", name, "--apply", "--yes")
	assert.Zero(t, code, out)
	assert.Contains(t, out, "nothing to do for --apply\n")

	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(svc), svc)) // the pods keep the port from before
	for i := range svc.Spec.Ports {
		if svc.Spec.Ports[i].Port == 443 {
			svc.Spec.Ports[i].Port = 8443
		}
	}
	require.NoError(t, admin.Update(t.Context(), svc))
	report, _ := plugged(t, "inject", "--live", "-n", name, "-o", "report")
	assert.Contains(t, report, "the proxy connects to web.connected at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 8443), 8443; calls of ports 80, 443 fail, because the TLS port is gone; calls of port 8443 fail in the pod, where nothing listens for them: recreate the pod")
	report, _ = plugged(t, "status", "-n", name, "web")
	assert.Contains(t, report, "Pods that connect to its ports from before; restart them if the Service is as it should be: Deployment cart: the proxy connects to web.connected at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 8443), 8443;")
	report, _ = plugged(t, "doctor", "-n", name)
	assert.Contains(t, report, "have another proxy than new pods would")
	assert.Contains(t, report, "kubectl rollout restart deployment/cart -n connected")
}

// seen writes what the rotator writes once it has seen the Service serve TLS, and its Lease.
func seen(t *testing.T, namespace, name string) {
	t.Helper()
	config, err := plane.ServiceAccountConfig(t.Context(), system, "servingcert-rotator")
	require.NoError(t, err)
	rotator, err := client.New(config, client.Options{Mapper: admin.RESTMapper()})
	require.NoError(t, err)
	harness.Eventually(t, func() error { // the signer writes too
		svc := &corev1.Service{}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, svc); err != nil {
			return err
		}
		leaf, _ := state.LeafOf(svc)
		before := svc.DeepCopy()
		svc.Status.Conditions = append(svc.Status.Conditions, state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent, Message: "seen"},
			state.Serving{Ports: api.NeedsHash(svc), Leaf: leaf, Since: time.Now()}).Both()...)
		for i := range svc.Status.Conditions {
			if svc.Status.Conditions[i].LastTransitionTime.IsZero() {
				svc.Status.Conditions[i].LastTransitionTime = metav1.Now()
			}
		}
		return rotator.Status().Patch(t.Context(), svc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	holder, seconds, now := "a-rotator", int32(time.Hour/time.Second), metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "servingcert-rotator"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now}}
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), lease)))
	t.Cleanup(func() { _ = admin.Delete(t.Context(), lease) })
}

// annotationOf returns the annotation of the client's template.
func annotationOf(t *testing.T, namespace string) string {
	t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "cart"}, d))
	return d.Spec.Template.Annotations[api.AnnotationConnect]
}

// plugged runs a command of the plugin as the administrator.
func plugged(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "kubectl-servingcert"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.KubeconfigFile())
	text, err := cmd.CombinedOutput()
	require.NotNil(t, cmd.ProcessState, fmt.Sprint(err, strings.Join(args, " ")))
	return string(text), cmd.ProcessState.ExitCode()
}
