package restart

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// reported returns the stale workloads of the place that are reported.
func (p place) reported() ([]api.StaleWorkload, error) {
	var cm corev1.ConfigMap
	if err := admin.Get(p.t.Context(), types.NamespacedName{Namespace: system, Name: api.ServingStatusName}, &cm); err != nil {
		return nil, err
	}
	return p.in(&cm)
}

func (p place) in(cm *corev1.ConfigMap) ([]api.StaleWorkload, error) {
	status, err := api.ParseServingStatus(cm.Data)
	if err != nil || status.Partial() {
		return nil, fmt.Errorf("the report is partial, or no report: %w", err)
	}
	var found []api.StaleWorkload
	for _, w := range status.Stale {
		if w.Namespace == p.name {
			found = append(found, w)
		}
	}
	return found, nil
}

// reports waits until so many stale workloads are reported, of which one is held
// for the reason.
func (p place) reports(n int, reason string) (found []api.StaleWorkload) {
	p.t.Helper()
	harness.Eventually(p.t, func() (err error) {
		if found, err = p.reported(); err != nil {
			return err
		}
		held := ""
		for _, w := range found {
			if w.Held != nil {
				held += w.Held.Reason
			}
		}
		if len(found) != n || held != reason {
			return fmt.Errorf("%d stale workloads are reported and held for %q, want %d and %q", len(found), held, n, reason)
		}
		return nil
	})
	return found
}

// Every stale workload is reported, however many a Service has, with what holds its
// restart; a new leader goes on with the report; and what serves the new
// certificate leaves it.
func TestTheReportIsWhole(t *testing.T) {
	p := newPlace(t)
	p.service("web")
	var workloads []*appsv1.Deployment
	for i := range 7 {
		name, one := fmt.Sprint("w", i), int32(1)
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: selector("web"), Template: template("web", api.OnRotateReload)}}
		d.Name = name
		d.Spec.Selector.MatchLabels["workload"], d.Spec.Template.Labels["workload"] = name, name
		if i == 6 {
			d.Spec.Template.Annotations[api.AnnotationOnRotate] = string(api.OnRotateRestart)
		}
		p.create(d)
		workloads = append(workloads, d)
	}
	p.ready("web", 7)
	registry, stop := startRotator(t, nil)
	p.current("web")
	p.reports(0, "")

	held := workloads[6]
	change(t, held, func() { held.Spec.Paused = true })
	leaf := p.rotate("web")
	p.held(registry, "Paused")
	found := p.reports(7, "Paused")
	for i, w := range found {
		want := api.StaleWorkload{
			Namespace: p.name, Kind: "Deployment", Name: fmt.Sprint("w", i), Secret: "web-tls", Leaf: leaf, Since: w.Since, Pods: 1, OnRotate: api.OnRotateReload,
		}
		if i == 6 {
			want.OnRotate, want.Held = api.OnRotateRestart, &api.RestartHold{Reason: "Paused", Message: "it is paused; kubectl rollout resume continues it"}
		}
		assert.Equal(t, want, w)
	}
	var svc corev1.Service
	require.NoError(t, admin.Get(t.Context(), types.NamespacedName{Namespace: p.name, Name: "web"}, &svc))
	assert.Contains(t, api.Condition(&svc, api.ConditionServing).Message, "Deployment w4 and 2 more: ", "for people")
	assert.WithinDuration(t, time.Now(), found[0].Since, time.Minute)

	stop()
	seen := p.watchReports(func() {
		registry, _ = startRotator(t, func(c *rotator.Config) {
			c.Cluster.Delay, c.Report.Interval = time.Second, 10*time.Millisecond // it reports before it has looked
		})
		p.held(registry, "Paused")
		p.reports(7, "Paused")
	})
	for _, n := range seen {
		assert.Equal(t, 7, n, "workloads that the new leader reported")
	}

	for _, d := range workloads[:6] {
		change(t, d, func() { d.Spec.Template.Annotations[restart.AnnotationRestartedAt] = time.Now().Format(time.RFC3339) })
	}
	p.reports(1, "Paused")
	change(t, held, func() { held.Spec.Paused = false })
	p.current("web")
	p.reports(0, "")
}

// watchReports returns how many stale workloads each report had that was written
// while f ran.
func (p place) watchReports(f func()) (seen []int) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	watching, err := client.NewWithWatch(cluster.AdminConfig(), client.Options{})
	require.NoError(p.t, err)
	w, err := watching.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(system), client.MatchingFields{"metadata.name": api.ServingStatusName})
	require.NoError(p.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if cm, ok := e.Object.(*corev1.ConfigMap); ok {
				found, err := p.in(cm)
				assert.NoError(p.t, err)
				seen = append(seen, len(found))
			}
		}
	}()
	f()
	w.Stop()
	<-done
	return seen
}
