// Package controller restarts the workloads that have stale pods and request it, as kubectl rollout
// restart does, and reports why others are not restarted. Package restart decides.
package controller

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
)

// Setup adds the controller to mgr. Its unit of work is a namespace. consumers has its stale
// workloads, and staleChanged enqueues a namespace where these have changed.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, consumers *servingcontroller.State, staleChanged *cluster.Trigger) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), corev1.AddToScheme(scheme), policyv1.AddToScheme(scheme)); err != nil {
		return err
	}
	live, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	r := &reconciler{cluster: c, cfg: cfg, consumers: consumers, staleChanged: staleChanged, live: live, events: eventWriter{c.Recorder()}, state: newState(mgr.Elected())}
	if err := c.Metrics.Register(r.state); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return c.AddController("restarts", controller.Options{
		MaxConcurrentReconciles: 1, // see reconciler
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute),
		Reconciler:              r,
	}, staleChanged)
}
