package rotator

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	uninjectedcontroller "github.com/servingcert/servingcert/pkg/rotator/uninjected/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var metricsAddress string

// missed returns the value of the namespace's series over HTTP, "" if there is none.
func missed(ctx context.Context, namespace string) (string, error) {
	metrics, err := process.Scrape(ctx, "http://"+metricsAddress+"/metrics")
	if err != nil || len(metrics.With("servingcert_missed_pods", "namespace", namespace)) == 0 {
		return "", err
	}
	return fmt.Sprint(metrics.Sum("servingcert_missed_pods", "namespace", namespace)), nil
}

// counts waits until the metric says so.
func counts(t *testing.T, namespace, want string) {
	t.Helper()
	harness.Eventually(t, func() error {
		got, err := missed(t.Context(), namespace)
		if err == nil && got != want {
			err = fmt.Errorf("servingcert_missed_pods of %s is %q, want %q", namespace, got, want)
		}
		return err
	})
}

// caughtUp waits until the rotator has seen all pods and Services that there are:
// each of its watches keeps the order, and no order holds between them.
func caughtUp(t *testing.T) {
	t.Helper()
	ns := harness.TemporaryNamespace(t, admin, true)
	webhook.leave(ns)
	service(t, ns, "web", true)
	create(t, newPod(ns, "last", "web"))
	counts(t, ns, "1")
}

// events returns the events about missed pods of the namespace.
func events(t *testing.T, namespace string) []eventsv1.Event {
	t.Helper()
	return harness.Events(t, admin, namespace, uninjectedcontroller.EventMissed, "")
}

// event waits for the namespace's only event.
func event(t *testing.T, namespace string) eventsv1.Event {
	t.Helper()
	return told(t, namespace, 1)[0]
}

// told waits for events, and that they are no more.
func told(t *testing.T, namespace string, n int) []eventsv1.Event {
	t.Helper()
	var all []eventsv1.Event
	harness.Eventually(t, func() error {
		if all = events(t, namespace); len(all) < n {
			return fmt.Errorf("%d events in %s, want %d", len(all), namespace, n)
		}
		return nil
	})
	require.Len(t, all, n)
	return all
}

func setLabel(t *testing.T, namespace string, on bool) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	harness.Change(t, admin, ns, func(ns *corev1.Namespace) {
		delete(ns.Labels, api.LabelInject)
		if on {
			ns.Labels[api.LabelInject] = api.InjectEnabled
		}
	})
}

// create makes an object, and deletes it when the test ends.
func create(t *testing.T, obj client.Object) {
	t.Helper()
	harness.Eventually(t, func() error { return admin.Create(t.Context(), obj) }) // the namespace's ServiceAccount takes a moment
	t.Cleanup(func() { remove(t, obj) })
}

// remove deletes an object at once, which need not be there.
func remove(t *testing.T, obj client.Object) {
	t.Helper()
	require.NoError(t, client.IgnoreNotFound(admin.Delete(context.WithoutCancel(t.Context()), obj, client.GracePeriodSeconds(0))))
}

// service makes a Service of that name that selects app=NAME and asks for Secret
// NAME-tls, or not yet.
func service(t *testing.T, namespace, name string, asks bool) *corev1.Service {
	t.Helper()
	svc := harness.Service(namespace, name)
	if !asks {
		svc.Annotations = nil
	}
	create(t, svc)
	return svc
}

func newPod(namespace, name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}, Annotations: map[string]string{}},
		Spec:       podSpec(),
	}
}

// podSpec is one that every Pod Security Standard admits.
func podSpec() corev1.PodSpec {
	yes, no := true, false
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "example.com/x", Args: []string{"serve"},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}}}
}
