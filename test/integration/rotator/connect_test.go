package rotator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	uninjectedcontroller "github.com/servingcert/servingcert/pkg/rotator/uninjected/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// outdated waits for so many events about outdated connections, and that they are no more, by their action.
func outdated(t *testing.T, namespace string, n int) map[string]eventsv1.Event {
	t.Helper()
	var all []eventsv1.Event
	harness.Eventually(t, func() error {
		all = harness.Events(t, admin, namespace, uninjectedcontroller.EventOutdated, "")
		if len(all) < n {
			return fmt.Errorf("%d events in %s, want %d", len(all), namespace, n)
		}
		return nil
	})
	require.Len(t, all, n)
	byAction := map[string]eventsv1.Event{}
	for _, e := range all {
		assert.Nil(t, e.Series, "told once")
		kind, _, _ := strings.Cut(e.Action, "-")
		byAction[kind] = e
	}
	return byAction
}

// TestServicesThatPodsConnectTo: a Service of another namespace gets a port, is opted out, and in again; one of the pods'
// own namespace loses its TLS port. Whoever owns the clients is told once each time, until their pods are new.
func TestServicesThatPodsConnectTo(t *testing.T) {
	shop, data := harness.TemporaryNamespace(t, admin, true), harness.TemporaryNamespace(t, admin, true)
	withTLS := func(svc *corev1.Service, numbers ...int32) {
		harness.Change(t, admin, svc, func(svc *corev1.Service) {
			svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}
			for i, number := range numbers {
				svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("tls-", number), Port: number, TargetPort: intstr.FromString(fmt.Sprint("sc-tls-808", i))})
			}
		})
	}
	db, web := service(t, data, "db", true), service(t, shop, "web", true)
	withTLS(db, 443)
	withTLS(web, 443)
	cart := deployment(t, shop, "cart", 2)
	restarts := 0
	restart := func(connect string) { // as kubectl rollout restart does
		restarts++
		at := fmt.Sprint(restarts)
		harness.Change(t, admin, cart, func(cart *appsv1.Deployment) {
			cart.Spec.Template.Annotations = map[string]string{api.AnnotationConnect: connect, "restarted": at}
		})
		harness.Eventually(t, func() error {
			var pods corev1.PodList
			err := admin.List(t.Context(), &pods, client.InNamespace(shop))
			old := slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Annotations["restarted"] != at })
			if err == nil && (len(pods.Items) != 2 || old) {
				err = fmt.Errorf("%d pods, old ones among them: %v", len(pods.Items), old)
			}
			return err
		})
	}
	restart("web, db." + data)
	hasPods(t, shop, 2, 2)
	counts(t, shop, "0")
	caughtUp(t)
	outdated(t, shop, 0)

	withTLS(db, 443, 9090)
	counts(t, shop, "2")
	e := outdated(t, shop, 1)["PortsDiffer"]
	assert.Equal(t, corev1.EventTypeWarning, e.Type)
	assert.Equal(t, "Deployment cart", e.Regarding.Kind+" "+e.Regarding.Name)
	assert.Contains(t, e.Note, "2 pods (cart-")
	assert.Contains(t, e.Note, "the proxy connects to db."+data+" at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 443), 443, 9090; calls of port 9090 fail in the pod")
	assert.Contains(t, e.Note, "; restart it: kubectl rollout restart deployment/cart -n "+shop)

	withTLS(db, 444, 9090)
	harness.Eventually(t, func() error { // within the minutes in which equal events are merged
		for _, e := range harness.Events(t, admin, shop, uninjectedcontroller.EventOutdated, "") {
			if strings.Contains(e.Note, "calls of ports 80, 443 fail, because the TLS port is gone") {
				return nil
			}
		}
		return errors.New("nobody was told that calls fail now")
	})

	restart("web, db." + data)
	counts(t, shop, "0")
	setLabel(t, data, false)
	counts(t, shop, "2")
	assert.Contains(t, outdated(t, shop, 3)["LeftOut"].Note, "; correct that before you restart it")
	setLabel(t, data, true)
	counts(t, shop, "0")

	restart("web")
	hasPods(t, shop, 2, 2)
	withTLS(db) // nobody connects to it any more
	late := service(t, shop, "late", false)
	withTLS(late, 443)
	restart("late")
	hasPods(t, shop, 2, 0)
	caughtUp(t)
	counts(t, shop, "0")
	harness.Change(t, admin, late, func(late *corev1.Service) { late.Annotations = map[string]string{api.AnnotationSecretName: "late-tls"} })
	counts(t, shop, "2")
	assert.Contains(t, outdated(t, shop, 4)["Unconnected"].Note, "calls to late."+shop+" leave the pod as its programs make them; restart it")
	restart("late")
	hasPods(t, shop, 2, 2)
	caughtUp(t)
	counts(t, shop, "0")
	outdated(t, shop, 4)
}
