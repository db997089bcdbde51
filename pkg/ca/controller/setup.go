package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// controllerName names the controller in logs, metrics and events.
func (c Config) controllerName() string { return c.Objects().Secret }

// Retries of a failed reconcile: the default would grow to a thousand seconds.
const (
	firstRetry  = 200 * time.Millisecond
	longestWait = 30 * time.Second
)

// Setup adds a Controller to the manager, which runs it while it leads, and returns it.
// It watches the metadata of the Secrets of its namespace and of one ConfigMap, through
// a cache of its own, so that the manager's cache is unchanged.
func Setup(mgr manager.Manager, cfg Config) (*Controller, error) {
	c, err := newController(cfg)
	if err != nil {
		return nil, err
	}
	c.reader, c.writer = mgr.GetAPIReader(), mgr.GetClient()
	if c.bundle = c.cfg.Bundle; c.bundle != nil {
		c.bundle.reader, c.bundle.writer = c.reader, c.writer
	}
	c.events = eventWriter{mgr.GetEventRecorder(c.cfg.controllerName()), c.key(c.cfg.Objects().Secret)}
	if err := c.addTo(mgr); err != nil {
		return nil, fmt.Errorf("set up %s: %w", c.cfg.controllerName(), err)
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(collector{c}); err != nil {
			return nil, fmt.Errorf("set up %s: register metrics: %w", c.cfg.controllerName(), err)
		}
	}
	return c, nil
}

func (c *Controller) addTo(mgr manager.Manager) error {
	watched, err := c.addCache(mgr, c.cfg.Objects().Status, facts.Metadata("Secret"), facts.Metadata("ConfigMap"))
	if err != nil {
		return err
	}
	builder := ctrl.NewControllerManagedBy(mgr).
		Named(c.cfg.controllerName()).
		WatchesRawSource(source.Func(c.once)).
		WatchesRawSource(c.sourceOf(watched, "Secret")).
		WatchesRawSource(c.sourceOf(watched, "ConfigMap"))
	if name := c.cfg.Objects().ExtraRoots; name != "" {
		// RBAC restricts the watch of ConfigMaps by name, and a cache has one selector per kind.
		extra, err := c.addCache(mgr, name, facts.Metadata("ConfigMap"))
		if err != nil {
			return err
		}
		builder = builder.WatchesRawSource(c.sourceOf(extra, "ConfigMap"))
	}
	if c.bundle != nil {
		kept, err := facts.AddCache(mgr, cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, api.ClientBundleName)}, c.bundle.metadata())
		if err != nil {
			return err
		}
		builder = builder.WatchesRawSource(source.Kind[client.Object](kept, c.bundle.metadata(), handler.EnqueueRequestsFromMapFunc(
			func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{c.theOnly()} })))
	}
	err = builder.
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, longestWait),
		}).
		Complete(facts.Reconciler(c.cfg.controllerName(), c))
	if err != nil {
		return fmt.Errorf("add controller: %w", err)
	}
	return nil
}

// addCache adds a cache of the kinds: of the Secrets of the namespace, and of the named ConfigMap.
func (c *Controller) addCache(mgr manager.Manager, configMap string, kinds ...client.Object) (cache.Cache, error) {
	return facts.AddCache(mgr, cache.Options{
		DefaultNamespaces: map[string]cache.Config{c.cfg.Namespace: {}},
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, configMap)},
		},
	}, kinds...)
}

// theOnly returns the one request of the controller: it keeps one CA.
func (c *Controller) theOnly() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: c.cfg.Objects().Secret}}
}

// once starts the first reconcile: on a first start there is nothing to watch.
func (c *Controller) once(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(c.theOnly())
	return nil
}

func (c *Controller) sourceOf(watched cache.Cache, kind string) source.Source {
	return source.Kind(watched, facts.Metadata(kind), handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, object *metav1.PartialObjectMetadata) []reconcile.Request {
			if o := c.cfg.Objects(); !slices.Contains([]string{o.Secret, o.Interim, o.Import, o.Status, o.ExtraRoots}, object.Name) {
				return nil
			}
			return []reconcile.Request{c.theOnly()}
		}))
}
