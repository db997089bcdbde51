package lifecycle

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// plugin is kubectl-servingcert, which waits as long as a test for what must come, and less for what may.
func plugin() {
	timing := pluginapp.DefaultTiming()
	timing.Apply.PollInterval, timing.Apply.Settle, timing.Apply.Endpoints = 100*time.Millisecond, 2*time.Second, harness.Soon
	timing.Apply.Serving = time.Second // no rotator runs, and no pod has an address that answers
	pluginapp.MainWith(timing)
}

// made is a way in which users make a Service from its manifest.
type made struct {
	name  string
	do    func(k kubectl, name string)
	again bool // the same may be done again
}

// kubectl runs kubectl in a namespace, with a manifest as its input, or helm with it as its chart.
type kubectl func(input string, args ...string)

const planned = "plan-applied"

// manifest is a Service with all that must stay as it is. Its only port has no name.
func manifest(name string) string {
	return fmt.Sprintf(`---
{apiVersion: v1, kind: Service, metadata: {name: %[1]s, labels: {team: a}, annotations: {note: kept}},
		spec: {type: NodePort, externalTrafficPolicy: Local, sessionAffinity: ClientIP, selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}, {name: udp, port: 80, protocol: UDP, targetPort: 8081}]}}`, name)
}

var ways = []made{
	{"apply", func(k kubectl, name string) { k(named(name), "apply", "-f", "-") }, true},
	{"serverside", func(k kubectl, name string) { k(named(name), "apply", "--server-side", "-f", "-") }, true},
	{"saveconfig", func(k kubectl, name string) { k(named(name), "create", "--save-config", "-f", "-") }, false},
	{"create", func(k kubectl, name string) { k(named(name), "create", "-f", "-") }, false},
	{"helm", func(k kubectl, name string) { k(named(name), "helm", "upgrade", "--install", name) }, true},
	{"expose", func(k kubectl, name string) {
		k("", "expose", "deployment", name, "--port=80", "--target-port=8080", "--type=NodePort")
	}, false},
	{"unnamed", func(k kubectl, name string) {
		k(strings.Replace(manifest(name), ", {name: udp, port: 80, protocol: UDP, targetPort: 8081}", "", 1), "apply", "-f", "-")
	}, true},
	{"balanced", func(k kubectl, name string) {
		k(strings.Replace(named(name), "NodePort", "LoadBalancer", 1), "apply", "-f", "-")
	}, true},
	{"clusterip", func(k kubectl, name string) {
		k(strings.Replace(named(name), "type: NodePort, externalTrafficPolicy: Local, ", "", 1), "create", "-f", "-")
	}, false},
	{"headless", func(k kubectl, name string) {
		k(strings.Replace(named(name), "type: NodePort, externalTrafficPolicy: Local", "clusterIP: None", 1), "apply", "-f", "-")
	}, true},
	{"two", func(k kubectl, name string) { // managers
		k(named(name), "apply", "-f", "-")
		k(named(name), "apply", "--server-side", "--force-conflicts", "--field-manager=second", "-f", "-")
		k("", "annotate", "service", name, "third=also")
	}, true},
}

// named is the manifest with a name for its port, which the API server wants where there are two.
func named(name string) string {
	return strings.Replace(manifest(name), "[{port: 80", "[{name: http, port: 80", 1)
}

// TestPlanIsCarriedOut: plan --apply adds to a Service what it says and changes nothing else of it, however the Service was
// made; the pods have the proxy, and each port has endpoints.
func TestPlanIsCarriedOut(t *testing.T) {
	path := harness.Kubectl(t)
	startInjecting(t)
	startNode(t)
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: planned}}))
	tools, err := controlplane.Tools(t.Context(), "hack/chart")
	require.NoError(t, err)
	run := func(input string, args ...string) {
		program := path
		if args[0] == "helm" {
			program, args = tools["helm"], append(args[1:], chartOf(t, input))
		}
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig=" + plane.KubeconfigFile(), "-n", planned}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	before := map[string]*corev1.Service{}
	for _, w := range ways {
		createDeployment(t, w.name)
		w.do(run, w.name)
	}
	for _, w := range ways {
		before[w.name] = serviceOf(t, w.name)
		hasEndpoints(t, w.name)
	}

	out, code := planOf(t, "-n", planned, "--apply", "--dry-run")
	require.Zero(t, code, out)
	assert.Contains(t, out, "wave 1  namespace "+planned+": label servingcert.dev/inject=enabled")
	for _, w := range ways {
		assert.Equal(t, before[w.name].ResourceVersion, serviceOf(t, w.name).ResourceVersion, w.name)
	}
	out, code = planOf(t, "-n", planned, "--apply")
	require.Equal(t, 1, code, "nobody can be asked: %s", out)

	out, code = planOf(t, "-n", planned, "--apply", "--yes")
	require.Equal(t, 1, code, out)
	assert.Contains(t, out, fmt.Sprintf("done, but %d Services not seen to serve TLS: ", len(ways)))
	for _, w := range ways {
		assert.Contains(t, out, "service "+planned+"/"+w.name+": all its ports have ready endpoints")
		assertOnlyAdded(t, before[w.name], serviceOf(t, w.name))
	}
	var pods corev1.PodList
	require.NoError(t, admin.List(t.Context(), &pods, client.InNamespace(planned)))
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			assert.Equal(t, "true", pod.Labels[api.LabelInjected], pod.Name)
		}
	}
	for _, w := range ways { // who made it makes it again
		if w.again {
			w.do(run, w.name)
			assertOnlyAdded(t, before[w.name], serviceOf(t, w.name))
		}
	}
	out, code = planOf(t, "-A", "--apply", "--yes")
	require.Equal(t, 1, code, out)
	assert.Contains(t, out, "nothing to do for --apply\n")
	out, code = planOf(t, "-n", planned, "--apply", "--yes")
	require.Equal(t, 1, code, out)
	assert.Contains(t, out, fmt.Sprintf("nothing to do, but %d Services not seen to serve TLS: ", len(ways)), "nothing was seen since")
	wholeServicesAreSafe(t, run)
}

// chartOf returns a chart of Helm with the manifest.
func chartOf(t *testing.T, manifest string) string {
	t.Helper()
	chart := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(chart, "templates"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte("{apiVersion: v2, name: of-a-user, version: 0.1.0}"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(chart, "templates/manifest.yaml"), []byte(manifest), 0o600))
	return chart
}

// startInjecting installs servingcert, and returns once new pods are injected. flags are further ones of the webhook.
func startInjecting(t *testing.T, flags ...string) {
	t.Helper()
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))
	start(t, "signer", true)
	start(t, "trust", true)
	newBalancer(t).replica(t, dir, append([]string{"--proxy-image=registry.example/proxy"}, flags...)...)
	name := "try-" + utilrand.String(6)
	harness.NewNamespace(t, admin, name, true)
	isInjected(t, harness.NewService(t, admin, name, "web"))
}

// wholeServicesAreSafe: what -o yaml prints removes nothing, with kubectl apply and with kubectl apply --server-side.
func wholeServicesAreSafe(t *testing.T, run kubectl) {
	for i, w := range ways {
		name := "whole-" + w.name
		createDeployment(t, name)
		w.do(run, name)
		before := serviceOf(t, name)
		out, code := planOf(t, planned+"/"+name, "-o", "yaml")
		require.Zero(t, code, out)
		if i%2 == 0 || w.name == "apply" {
			run(out, "apply", "--server-side", "--force-conflicts", "--field-manager=repository", "-f", "-")
		} else {
			run(out, "apply", "-f", "-")
		}
		after := serviceOf(t, name)
		delete(after.Annotations, corev1.LastAppliedConfigAnnotation)
		delete(before.Annotations, corev1.LastAppliedConfigAnnotation)
		assertOnlyAdded(t, before, after)
	}
}

// TestPlanStopsBeforeAPodIsReplaced: a quota that refuses new pods is found by asking for one.
func TestPlanStopsBeforeAPodIsReplaced(t *testing.T) {
	startInjecting(t)
	startNode(t)
	const name = "refused"
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	createIn(t, name, name)
	require.NoError(t, admin.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}}}))
	harness.Eventually(t, func() error { return ready(t.Context(), name, name) })
	require.NoError(t, admin.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "full"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}))
	harness.Eventually(t, func() error { // the API server goes by what it has cached
		err := admin.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "one-more"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("one more pod: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	out, code := planOf(t, name+"/"+name, "--apply", "--yes")
	assert.Equal(t, 1, code, out)
	assert.Contains(t, out, "a new pod would be refused, so none of its pods was replaced: ")
	assert.Contains(t, out, "exceeded quota: full")
	var d appsv1.Deployment
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: name, Name: name}, &d))
	assert.Empty(t, d.Spec.Template.Annotations)
	assert.NoError(t, ready(t.Context(), name, name), "the port from before has its endpoints")
}

// planOf runs kubectl servingcert plan as the administrator, with nobody at a terminal.
func planOf(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	out, code, err := runPlan(t.Context(), args...)
	require.NoError(t, err)
	return out, code
}

// runPlan is planOf for another goroutine.
func runPlan(ctx context.Context, args ...string) (out string, code int, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "kubectl-servingcert"), append([]string{"plan"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.KubeconfigFile())
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return "", 0, err
	}
	return string(text), cmd.ProcessState.ExitCode(), nil
}

func serviceOf(t *testing.T, name string) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: planned, Name: name}, svc))
	return svc
}

// assertOnlyAdded: the Service has one annotation and one port more, and a name for the port that had none.
func assertOnlyAdded(t *testing.T, before, after *corev1.Service) {
	t.Helper()
	want := before.DeepCopy()
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[api.AnnotationSecretName] = before.Name + "-tls"
	if want.Spec.Ports[0].Name == "" {
		want.Spec.Ports[0].Name = "http"
	}
	added := corev1.ServicePort{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}
	got := after.DeepCopy()
	for i := range got.Spec.Ports {
		if got.Spec.Ports[i].Name == "https" {
			got.Spec.Ports[i].NodePort = 0
		}
	}
	assert.ElementsMatch(t, append(want.Spec.Ports, added), got.Spec.Ports, before.Name)
	want.Spec.Ports, got.Spec.Ports = nil, nil
	assert.Equal(t, want.Spec, got.Spec, before.Name)
	assert.Equal(t, want.Annotations, got.Annotations, before.Name)
	assert.Equal(t, want.Labels, got.Labels, before.Name)
}

func createDeployment(t *testing.T, name string) { createIn(t, planned, name) }

func createIn(t *testing.T, namespace, name string) {
	t.Helper()
	labels := map[string]string{"app": name}
	require.NoError(t, admin.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example/web", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}},
		}}}))
}

// hasEndpoints waits until the Service has a ready endpoint.
func hasEndpoints(t *testing.T, name string) {
	t.Helper()
	harness.Eventually(t, func() error { return ready(t.Context(), planned, name) })
}

func ready(ctx context.Context, namespace, service string) error {
	var slices discoveryv1.EndpointSliceList
	if err := admin.List(ctx, &slices, client.InNamespace(namespace), client.MatchingLabels{"kubernetes.io/service-name": service}); err != nil {
		return err
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return nil
			}
		}
	}
	return fmt.Errorf("Service %s/%s has no ready endpoint", namespace, service)
}

// startNode plays a node until the test ends: each pod of it is ready at once, and gone once it is deleted.
func startNode(t *testing.T) {
	t.Helper()
	node := harness.Node{
		Client: admin, Name: "hollow", Silent: true,
		Runs: func(pod *corev1.Pod) bool {
			return slices.Contains([]string{planned, "refused", "connected", "guarded"}, pod.Namespace) || strings.HasPrefix(pod.Namespace, "chart-")
		},
		Address: func(n int) string { return fmt.Sprintf("10.9.%d.%d", n/250, 1+n%250) },
	}
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, node.Start(ctx))
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, node.Wait())
		assert.NoError(t, admin.Delete(context.WithoutCancel(t.Context()), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}))
	})
}
