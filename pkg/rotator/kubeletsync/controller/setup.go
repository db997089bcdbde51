// Package controller wakes the kubelets of pods whose files are to change: it writes annotation
// servingcert.dev/leaf on the pods, at a bounded rate. Package kubeletsync decides.
package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/kubeletsync"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
)

// Setup adds two controllers to mgr. The unit of work of the first is a Secret, or the bundle of a
// namespace, which has no name; that of the second is a pod to be woken. consumers has what the pods
// serve, and rotated enqueues a Secret with a new certificate.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, consumers *servingcontroller.State, rotated *cluster.Trigger) error {
	bundles, err := facts.NewInformer(mgr, facts.Options[*corev1.ConfigMap, *kubeletsync.Bundle]{
		Example: &corev1.ConfigMap{}, Field: fields.OneTermEqualSelector(metav1.ObjectNameField, api.BundleName), Derive: kubeletsync.BundleOf, LeaderOnly: true,
	})
	if err != nil {
		return fmt.Errorf("make the cache of bundles: %w", err)
	}
	in := &inputs{cluster: c, consumers: consumers, bundles: bundles}
	w := newWaker(cfg, in, mgr.GetClient())
	if err := c.Metrics.Register(w.results); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := mgr.Add(bundles); err != nil {
		return fmt.Errorf("add a runnable: %w", err)
	}
	found := cluster.NewTrigger("pods to be woken", 0)
	if err := c.AddController("wakes", controller.Options{Reconciler: w}, found); err != nil {
		return err
	}
	return c.AddController("changed-files", controller.Options{Reconciler: &finder{inputs: in, waker: w, found: found}},
		rotated, bundles.Source("bundles", onBundle(cfg.Delay)))
}

// onBundle enqueues the namespace of a new bundle.
func onBundle(delay time.Duration) facts.Handler[*kubeletsync.Bundle] {
	return func(_ context.Context, q facts.Queue, before, after *kubeletsync.Bundle) {
		if after != nil && (before == nil || before.Hash != after.Hash) {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: after.Namespace}}, delay)
		}
	}
}
