package restart

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	restartpolicy "github.com/servingcert/servingcert/pkg/rotator/restart"
	restartcontroller "github.com/servingcert/servingcert/pkg/rotator/restart/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// ctxOf outlives the test, for what it cleans up.
func ctxOf(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}

// toUnstructured returns what an applier would send: nothing that the server adds.
func toUnstructured(t *testing.T, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	return u
}

// A budget that allows no disruption holds a restart, and one that does lets it.
func TestADisruptionBudget(t *testing.T) {
	p := newPlace(t)
	web := p.deployment("web", 2)
	two, one := intstr.FromInt32(2), intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: selector("web")},
	}
	p.create(budget)
	harness.Eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(budget), budget)
		if err == nil && budget.Status.CurrentHealthy != 2 {
			err = fmt.Errorf("%d pods are healthy to the budget", budget.Status.CurrentHealthy)
		}
		return err
	})
	r := startRotator(t)
	p.current("web")
	p.rotate("web")
	p.held(r, "DisruptionBudget")
	e := p.told(restartcontroller.EventRestartHeld, "web")
	assert.Equal(t, corev1.EventTypeWarning, e.Type)
	assert.Contains(t, e.Note, "not restarted: PodDisruptionBudget keep allows no disruption now (2 of 2 pods healthy, 2 needed); it will be restarted when that has changed")
	assert.Empty(t, restartedAt(t, web))
	harness.Change(t, admin, budget, func(budget *policyv1.PodDisruptionBudget) { budget.Spec.MinAvailable = &one })
	p.current("web")
	assert.NotEmpty(t, restartedAt(t, web))
	assert.Len(t, p.events(restartcontroller.EventRestartHeld, "web"), 1)
	assert.Nil(t, p.events(restartcontroller.EventRestartHeld, "web")[0].Series, "told once")
}

// What kubectl rollout restart does not know, or what would not help, is told of
// and never killed.
func TestWhatAPersonHasToDo(t *testing.T) {
	p := newPlace(t)
	startRotator(t)
	for _, name := range []string{"bare", "once", "sets", "by-hand"} {
		p.service(name)
	}
	bare := &corev1.Pod{ObjectMeta: template("bare", api.OnRotateRestart).ObjectMeta, Spec: template("bare", "").Spec}
	bare.Name = "bare"
	p.create(bare)
	once := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: batchv1.JobSpec{Template: template("once", api.OnRotateRestart)}}
	once.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.create(once)
	one := int32(1)
	p.create(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "sets"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &one, Selector: selector("sets"), Template: template("sets", api.OnRotateRestart),
	}})
	byHand := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &one, Selector: selector("by-hand"), Template: template("by-hand", api.OnRotateRestart), ServiceName: "by-hand",
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
	}}
	p.create(byHand)
	uids := map[string]string{}
	for _, name := range []string{"bare", "once", "sets", "by-hand"} {
		p.ready(name, 1)
		uids[name] = string(p.pods(name)[0].UID)
	}
	p.current("bare", "once", "sets", "by-hand")
	for name := range uids {
		p.rotate(name)
	}
	for name, want := range map[string]string{
		"bare":    "not restarted: no controller would recreate the pods; recreate it",
		"once":    "not restarted: restarting a Job is not supported; delete it and create it again",
		"sets":    "not restarted: restarting a ReplicaSet is not supported; delete its pods one by one",
		"by-hand": "not restarted: its update strategy leaves old pods running; delete those pods one by one: kubectl delete pod by-hand-0 -n " + p.name,
	} {
		e := p.told(restartcontroller.EventRestartNotPossible, name)
		assert.Contains(t, e.Note, want)
		pods := p.pods(name)
		require.Len(t, pods, 1)
		assert.Equal(t, uids[name], string(pods[0].UID), name)
	}
	assert.Empty(t, restartedAt(t, byHand))
	require.NoError(t, admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "by-hand-0"}}))
	p.current("by-hand")
}

// A rollout that does not get on is told of, gives its place back, and holds its
// namespace and no other.
func TestAStuckRollout(t *testing.T) {
	p, other := newPlace(t), newPlace(t)
	p.deployment("a", 1)
	b := p.deployment("b", 1)
	elsewhere := other.deployment("web", 1)
	r := startRotator(t, func(c *rotator.Config) { c.Restart.Max = 1; c.Restart.StuckAfter = time.Second })
	p.current("a", "b")
	other.current("web")
	// The Deployment has no patience of its own that would be longer.
	harness.Change(t, admin, b, func(b *appsv1.Deployment) { none := int32(1<<31 - 1); b.Spec.ProgressDeadlineSeconds = &none })
	a := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "a"}}
	harness.Change(t, admin, a, func(a *appsv1.Deployment) { none := int32(1<<31 - 1); a.Spec.ProgressDeadlineSeconds = &none })
	stopped.Store(p.name, true)
	p.rotate("a")
	p.told(restartcontroller.EventRestarted, "a")
	p.rotate("b")
	other.rotate("web")
	e := p.told(restartcontroller.EventRestartStuck, "a")
	assert.Contains(t, e.Note, "until it is, no other workload of namespace "+p.name+" is restarted: kubectl rollout status deployment/a -n "+p.name)
	p.held(r, "BehindStuck")
	assert.Contains(t, p.told(restartcontroller.EventRestartHeld, "b").Note, "Deployment a of the same namespace was restarted, and its rollout is not progressing")
	harness.Eventually(t, func() error { // what the Deployment's controller says late is progress, for a while
		if n := r.Metrics(t).Sum("servingcert_restarts_stuck", "namespace", p.name); n != 1 {
			return fmt.Errorf("%v workloads are stuck, want 1", n)
		}
		return nil
	})
	other.current("web")
	assert.NotEmpty(t, restartedAt(t, elsewhere), "it has a place")
	assert.Empty(t, restartedAt(t, b))
	stopped.Delete(p.name)
	p.current("a", "b")
	assert.NotEmpty(t, restartedAt(t, b))
	assert.Len(t, p.events(restartcontroller.EventRestartStuck, "a"), 1)
}

// A leader that dies in the middle of a rollout is followed by one that waits for
// it, and that restarts nothing a second time, though no old pod is left that
// would tell.
func TestALeaderDies(t *testing.T) {
	p, other := newPlace(t), newPlace(t)
	atOnce := func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }
	all := []*appsv1.Deployment{p.deployment("a", 1, atOnce), p.deployment("b", 1), other.deployment("web", 1)}
	config := func(c *rotator.Config) { c.Restart.Max = 1 }
	first := startRotator(t, config)
	p.current("a", "b")
	other.current("web")
	for _, q := range []place{p, other} {
		stopped.Store(q.name, true)
	}
	p.rotate("a")
	p.told(restartcontroller.EventRestarted, "a")
	at := restartedAt(t, all[0])
	first.Stop()
	harness.Eventually(t, func() error { // nothing of it is stale, and it rolls
		if pods := p.pods("a"); len(pods) != 1 || pods[0].Status.PodIP != "" {
			return fmt.Errorf("%d pods of a, want one that does not run", len(pods))
		}
		return nil
	})
	p.rotate("b")
	other.rotate("web")

	r := startRotator(t, config)
	p.held(r, "Turn")
	other.held(r, "Full")
	assert.InDelta(t, 1, r.Metrics(t).Sum("servingcert_restarts_rolling"), 0)
	assert.Empty(t, restartedAt(t, all[1]))
	assert.Empty(t, restartedAt(t, all[2]))
	for _, q := range []place{p, other} {
		stopped.Delete(q.name)
	}
	p.current("a", "b")
	other.current("web")
	assert.Equal(t, at, restartedAt(t, all[0]))
	restarts(t, r, 2)
}

// A restart that was taken back is not fought for.
func TestTakenBack(t *testing.T) {
	p := newPlace(t)
	web := p.deployment("web", 2)
	r := startRotator(t)
	p.current("web")
	stopped.Store(p.name, true)
	p.rotate("web")
	p.told(restartcontroller.EventRestarted, "web")
	harness.Change(t, admin, web, func(web *appsv1.Deployment) {
		delete(web.Spec.Template.Annotations, restartpolicy.AnnotationRestartedAt)
	})
	p.held(r, "Undone")
	assert.Contains(t, p.told(restartcontroller.EventRestartHeld, "web").Note, "whatever does that must leave the annotation alone")
	assert.Empty(t, restartedAt(t, web))
	stopped.Delete(p.name)
	p.rotate("web") // for the next certificate it is tried again
	p.current("web")
	assert.NotEmpty(t, restartedAt(t, web))
}

// Without the right to it restarts are held, and an event says whose words those
// are.
func TestNoRight(t *testing.T) {
	p := newPlace(t)
	web := p.deployment("web", 1)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "servingcert-rotator"}}
	var rules []rbacv1.PolicyRule
	without := func(verb string) {
		harness.Change(t, admin, role, func(role *rbacv1.ClusterRole) {
			if rules == nil {
				rules = role.DeepCopy().Rules
			}
			role.Rules = nil
			for _, r := range rules {
				if r = *r.DeepCopy(); r.APIGroups[0] == "apps" {
					r.Verbs = map[string][]string{"get": {"patch"}, "patch": {"get"}, "": {"get", "patch"}}[verb]
				}
				role.Rules = append(role.Rules, r)
			}
		})
	}
	t.Cleanup(func() {
		without("")
		require.NoError(t, harness.RightsInForce(context.WithoutCancel(t.Context()), admin))
	})
	r := startRotator(t)
	p.current("web")
	without("get")
	p.mayNotGet(web)
	p.rotate("web")
	p.held(r, "Forbidden")
	assert.Contains(t, p.told(restartcontroller.EventRestartHeld, "web").Note, `cannot get resource "deployments"`)
	without("patch")
	p.held(r, "Refused")
	harness.Eventually(t, func() error {
		for _, e := range p.events(restartcontroller.EventRestartHeld, "web") {
			if strings.Contains(e.Note, `cannot patch resource "deployments"`) {
				return nil
			}
		}
		return errors.New("no event says that it may not be patched")
	})
	assert.Empty(t, restartedAt(t, web))
	without("")
	p.current("web")
	assert.NotEmpty(t, restartedAt(t, web))
}

// mayNot waits until the API server knows that the rotator may not.
func (p place) mayNotGet(obj client.Object) {
	p.t.Helper()
	c, err := client.New(account, client.Options{})
	require.NoError(p.t, err)
	harness.Eventually(p.t, func() error {
		err := c.Get(p.t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
		if apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("it may still be read: %w", err)
	})
}
