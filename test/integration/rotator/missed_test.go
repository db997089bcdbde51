package rotator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	uninjectedcontroller "github.com/servingcert/servingcert/pkg/rotator/uninjected/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func deployment(t *testing.T, namespace, name string, replicas int32) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, // no pod ever gets ready here
		},
	}
	create(t, d)
	return d
}

// hasPods waits until so many pods are there, of which so many were injected.
func hasPods(t *testing.T, namespace string, n, injected int) {
	t.Helper()
	harness.Eventually(t, func() error {
		var pods corev1.PodList
		if err := admin.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		withLabel := 0
		for i := range pods.Items {
			if pods.Items[i].Labels[api.LabelInjected] != "" {
				withLabel++
			}
		}
		if len(pods.Items) != n || withLabel != injected {
			return fmt.Errorf("%d pods of which %d injected, want %d and %d", len(pods.Items), withLabel, n, injected)
		}
		return nil
	})
}

func TestPodsOlderThanTheLabel(t *testing.T) {
	ns := harness.TemporaryNamespace(t, admin, false)
	svc := service(t, ns, "web", true)
	d := deployment(t, ns, "web", 3)
	hasPods(t, ns, 3, 0)
	counts(t, ns, "")
	caughtUp(t)

	setLabel(t, ns, true)
	counts(t, ns, "3")
	e := event(t, ns)
	assert.Equal(t, corev1.EventTypeWarning, e.Type)
	assert.Equal(t, "Deployment web", e.Regarding.Kind+" "+e.Regarding.Name)
	require.NotNil(t, e.Related)
	assert.Equal(t, svc.UID, e.Related.UID)
	assert.Contains(t, e.Note, "3 pods (web-")
	assert.Contains(t, e.Note, "were not injected with Secret web-tls, which Service web requests")
	assert.Contains(t, e.Note, "; restart it: kubectl rollout restart deployment/web -n "+ns)

	harness.Change(t, admin, d, func(d *appsv1.Deployment) { // as that command does
		d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-05-01T12:00:00Z"}
	})
	hasPods(t, ns, 3, 3)
	counts(t, ns, "0")

	setLabel(t, ns, false)
	counts(t, ns, "")
	assert.Len(t, events(t, ns), 1)
}

func TestPodsOlderThanTheAnnotation(t *testing.T) {
	ns := harness.TemporaryNamespace(t, admin, true)
	svc := service(t, ns, "web", false)
	pods := []*corev1.Pod{newPod(ns, "web-b", "web"), newPod(ns, "web-a", "web")}
	for _, p := range pods {
		create(t, p)
	}
	caughtUp(t)
	counts(t, ns, "0")

	harness.Change(t, admin, svc, func(svc *corev1.Service) { svc.Annotations = map[string]string{api.AnnotationSecretName: "web-tls"} })
	counts(t, ns, "2")
	e := event(t, ns)
	assert.Equal(t, "Service web", e.Regarding.Kind+" "+e.Regarding.Name, "one for both")
	assert.Equal(t, svc.UID, e.Regarding.UID)
	assert.Contains(t, e.Note, "2 pods (web-a among them) were not injected")
	assert.Contains(t, e.Note, "; recreate it")

	for i, p := range pods {
		remove(t, p)
		counts(t, ns, fmt.Sprint(1-i))
		create(t, newPod(ns, p.Name, "web"))
	}
	hasPods(t, ns, 2, 2)
	counts(t, ns, "0")
	assert.Len(t, events(t, ns), 1)

	harness.Change(t, admin, svc, func(svc *corev1.Service) { svc.Annotations[api.AnnotationSecretName] = "other-tls" })
	counts(t, ns, "2") // they would get another Secret
	harness.Change(t, admin, svc, func(svc *corev1.Service) { svc.Annotations = nil })
	counts(t, ns, "0")
}

func TestWebhookAway(t *testing.T) {
	ns := harness.TemporaryNamespace(t, admin, true)
	service(t, ns, "web", true)
	create(t, newPod(ns, "before", "web"))
	webhook.leave(ns)
	create(t, newPod(ns, "meanwhile", "web"))
	own := newPod(ns, "own", "other")
	own.Annotations[api.AnnotationSecretName] = "own-tls"
	create(t, own)
	webhook.back(ns)
	create(t, newPod(ns, "after", "web"))

	counts(t, ns, "2")
	about := map[string]string{}
	for _, e := range told(t, ns, 2) {
		about[e.Regarding.Kind+" "+e.Regarding.Name] = e.Note
	}
	assert.Contains(t, about["Service web"], "pod meanwhile was not injected with Secret web-tls")
	assert.Contains(t, about["Pod own"], "pod own was not injected with Secret own-tls, which the pod's annotation requests")
}

func TestPodChanges(t *testing.T) {
	ns := harness.TemporaryNamespace(t, admin, true)
	service(t, ns, "web", true)
	p := newPod(ns, "p", "other")
	create(t, p)
	counts(t, ns, "0")
	harness.Change(t, admin, p, func(p *corev1.Pod) { p.Labels["app"] = "web" })
	counts(t, ns, "1")
	harness.Change(t, admin, p, func(p *corev1.Pod) { p.Labels[api.LabelInject] = api.InjectDisabled })
	counts(t, ns, "0")

	webhook.leave(ns)
	ended := newPod(ns, "ended", "web")
	create(t, ended)
	counts(t, ns, "1")
	ended.Status.Phase = corev1.PodSucceeded
	require.NoError(t, admin.Status().Update(t.Context(), ended))
	counts(t, ns, "0")
}

// servingcert-system is labelled by install.yaml, kube-system by somebody.
func TestExcludedNamespaces(t *testing.T) {
	setLabel(t, metav1.NamespaceSystem, true)
	t.Cleanup(func() { setLabel(t, metav1.NamespaceSystem, false) })
	for _, ns := range []string{system, metav1.NamespaceSystem} {
		service(t, ns, "web", true)
		create(t, newPod(ns, "web", "web"))
	}
	ns := harness.TemporaryNamespace(t, admin, true)
	webhook.leave(ns)
	service(t, ns, "web", true)
	create(t, newPod(ns, "web", "web"))
	event(t, ns) // what happened before has been looked at
	counts(t, system, "0")
	counts(t, metav1.NamespaceSystem, "0")
	assert.Empty(t, events(t, system))
	assert.Empty(t, events(t, metav1.NamespaceSystem))
}

// What the webhook noted on the pods of a Deployment reaches whoever looks at the Deployment, once.
func TestWhatTheWebhookNoted(t *testing.T) {
	ns := harness.TemporaryNamespace(t, admin, true)
	svc := service(t, ns, "web", true)
	harness.Change(t, admin, svc, func(svc *corev1.Service) { svc.Spec.Ports[0].TargetPort = intstr.FromString("https") })
	d := deployment(t, ns, "web", 3) // no container declares that port
	hasPods(t, ns, 3, 0)
	e := harness.Told(t, admin, ns, uninjectedcontroller.EventNoted, "")
	assert.Equal(t, corev1.EventTypeWarning, e.Type)
	assert.Equal(t, "Deployment web", e.Regarding.Kind+" "+e.Regarding.Name)
	assert.Equal(t, "NotServing", e.Action)
	assert.Contains(t, e.Note, `among them): "NotServing: no container declares the target port of the Service (Service web: targetPort https)`)
	counts(t, ns, "0")

	harness.Change(t, admin, d, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"again": "yes"} })
	harness.Eventually(t, func() error {
		var pods corev1.PodList
		err := admin.List(t.Context(), &pods, client.InNamespace(ns))
		again := len(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Annotations["again"] == "" }))
		if err == nil && again < 3 {
			err = fmt.Errorf("%d pods of the new template", again)
		}
		return err
	})
	create(t, newPod(ns, "bare", "web")) // whoever makes it reads the warning
	caughtUp(t)
	assert.Len(t, harness.Events(t, admin, ns, uninjectedcontroller.EventNoted, ""), 1)
}

// The replica that does not lead counts nothing, tells nothing and holds no pods.
func TestStandby(t *testing.T) {
	var pods atomic.Int64
	cfg := rest.CopyConfig(account)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/pods") {
				pods.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	registry := prometheus.NewRegistry()
	mgr, err := newManager(cfg, "0", registry)
	require.NoError(t, err)
	ctx, done := t.Context(), make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { require.NoError(t, <-done) })
	require.True(t, mgr.GetCache().WaitForCacheSync(ctx))

	ns := harness.TemporaryNamespace(t, admin, true)
	webhook.leave(ns)
	service(t, ns, "web", true)
	create(t, newPod(ns, "web", "web"))
	counts(t, ns, "1") // by the one that leads
	event(t, ns)
	for name, family := range harness.Metrics(t, registry) {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				assert.NotEqual(t, "namespace", l.GetName(), "%s: what a namespace holds is for the leader to say", name)
			}
		}
	}
	assert.Zero(t, pods.Load())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
