package restart

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	restartcontroller "github.com/servingcert/servingcert/pkg/rotator/restart/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// Each kind is restarted once for a certificate, and all its pods serve it then.
func TestEachKindIsRestartedOnce(t *testing.T) {
	p := newPlace(t)
	web := p.deployment("web", 3)
	p.service("db")
	two := int32(2)
	db := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &two, Selector: selector("db"), ServiceName: "db", Template: template("db", api.OnRotateRestart),
	}}
	p.create(db)
	for i := range 2 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", p.name, i), Labels: map[string]string{"for": p.name}}}
		require.NoError(t, admin.Create(t.Context(), n))
		t.Cleanup(func() { require.NoError(t, admin.Delete(ctxOf(t), n)) })
		harness.Change(t, admin, n, func(n *corev1.Node) { n.Spec.Taints = nil }) // admission takes it for one that is not ready yet
	}
	p.service("agent")
	agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: selector("agent"), Template: template("agent", api.OnRotateRestart),
	}}
	agent.Spec.Template.Spec.NodeSelector = map[string]string{"for": p.name}
	p.create(agent)
	p.ready("db", 2)
	p.ready("agent", 2)

	r := startRotator(t)
	p.current("web", "db", "agent")
	all := map[string]client.Object{"web": web, "db": db, "agent": agent}
	for name, w := range all {
		require.Empty(t, restartedAt(t, w), name)
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(w), w))
	}
	before := map[string]map[string]bool{}
	for name := range all {
		before[name] = map[string]bool{}
		for _, pod := range p.pods(name) {
			before[name][string(pod.UID)] = true
		}
	}

	rotated := time.Now().Truncate(time.Second)
	for name := range all {
		p.rotate(name)
	}
	p.current("web", "db", "agent")
	times := map[string]string{}
	for name, w := range all {
		at, err := time.Parse(time.RFC3339, restartedAt(t, w))
		require.NoError(t, err, name)
		assert.False(t, at.Before(rotated), name)
		times[name] = restartedAt(t, w)
		for _, pod := range p.pods(name) {
			assert.False(t, before[name][string(pod.UID)], "%s is as old as the old certificate", pod.Name)
		}
		e := p.told(restartcontroller.EventRestarted, name)
		assert.Equal(t, corev1.EventTypeNormal, e.Type)
		assert.Equal(t, w.GetUID(), e.Regarding.UID)
		assert.Equal(t, "Service", e.Related.Kind)
		assert.Equal(t, name, e.Related.Name)
		assert.Contains(t, e.Note, "an older certificate than Secret "+name+"-tls has held since ")
	}
	// And nothing more happens to them.
	restarts(t, r, 3)
	for name := range all {
		p.rotate(name)
	}
	for name, w := range all {
		harness.Eventually(t, func() error {
			if restartedAt(t, w) == times[name] {
				return fmt.Errorf("%s was not restarted for the next certificate", name)
			}
			return nil
		})
	}
	p.current("web", "db", "agent")
	restarts(t, r, 6)
	harness.Eventually(t, func() error {
		if n := r.Metrics(t).Sum("servingcert_restarts_rolling"); n != 0 {
			return fmt.Errorf("%v rollouts go on", n)
		}
		return nil
	})
}

// A tool that applies its manifest again, as those of GitOps do, leaves the
// restart as it is.
func TestAppliedAgain(t *testing.T) {
	p := newPlace(t)
	p.service("web")
	apply := func() {
		t.Helper()
		one := int32(1)
		obj := toUnstructured(t, &appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "web"},
			Spec:       appsv1.DeploymentSpec{Replicas: &one, Selector: selector("web"), Template: template("web", api.OnRotateRestart)},
		})
		require.NoError(t, admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("kustomize-controller"), client.ForceOwnership))
	}
	apply()
	p.ready("web", 1)
	startRotator(t)
	p.current("web")
	p.rotate("web")
	p.told(restartcontroller.EventRestarted, "web")
	p.current("web")
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "web"}}
	at := restartedAt(t, web)
	generation := web.Generation
	apply()
	assert.Equal(t, at, restartedAt(t, web))
	assert.Equal(t, generation, web.Generation)
	for _, f := range web.ManagedFields {
		assert.NotContains(t, f.Manager, "kubectl", "whose fields some of those tools take back")
	}
}
