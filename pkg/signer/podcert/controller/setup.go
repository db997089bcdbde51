package controller

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/podcert"
)

// Retries of what failed.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// byAsking finds the Services of a namespace that ask for a certificate.
const byAsking = "servingcert.asking"

// Setup adds the controller to the manager, whose cache must be that of the signer's
// controller. It runs on the leader.
func Setup(ctx context.Context, mgr manager.Manager, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	index := func(o client.Object) []string {
		if svc, ok := o.(*corev1.Service); ok && api.Asks(svc) {
			return []string{"true"}
		}
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Service{}, byAsking, index); err != nil {
		return fmt.Errorf("index Services: %w", err)
	}
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("client for PodCertificateRequests: %w", err)
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return mgr.Add(&starter{cfg, mgr, clientset, metrics})
}

// starter starts the controller once the API server serves PodCertificateRequests.
type starter struct {
	config    Config
	mgr       manager.Manager
	clientset kubernetes.Interface
	metrics   *metrics
}

// Start runs until ctx ends; a manager calls it on the leader.
func (s *starter) Start(ctx context.Context) error {
	served := s.await(ctx)
	if served == nil {
		return nil
	}
	requests, err := served.cache(served.client)
	if err != nil {
		return fmt.Errorf("cache of PodCertificateRequests: %w", err)
	}
	c := &Controller{
		config:   s.config,
		requests: requests,
		answers:  served.client,
		live:     s.mgr.GetAPIReader(),
		cache:    s.mgr.GetCache(),
		events:   s.mgr.GetEventRecorder("servingcert-signer"),
		metrics:  s.metrics,
		answered: facts.NewWritten[struct{}](),
		said:     facts.NewSaid(),
	}
	ctrl, err := c.controller(s.mgr)
	if err != nil {
		return err
	}
	s.metrics.served.Set(1)
	log.FromContext(ctx).Info("answering PodCertificateRequests", "version", served.name, "signer", api.SignerName)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	for _, run := range []func(context.Context) error{requests.Start, ctrl.Start} {
		group.Go(func() error {
			defer stop() // both or none
			return run(ctx)
		})
	}
	return group.Wait()
}

// await returns the version that is served as soon as there is one, nil if ctx ended
// before.
func (s *starter) await(ctx context.Context) *version {
	for {
		served, err := servedVersion(ctx, s.clientset)
		if served != nil {
			return served
		}
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Info("the API server did not answer whether it serves PodCertificateRequests", "why", err.Error())
		}
		timer := time.NewTimer(s.config.ProbeInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// controller returns what calls Reconcile.
func (c *Controller) controller(mgr manager.Manager) (controller.Controller, error) {
	anyName := true // several managers run in one process of a test
	ctrl, err := controller.NewUnmanaged("pod-certificates", controller.Options{
		SkipNameValidation:      &anyName,
		Reconciler:              c,
		MaxConcurrentReconciles: c.config.Workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		Logger:                  mgr.GetLogger(),
	})
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	namespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request { return c.pending(o.GetName()) })
	for _, s := range []source.Source{
		c.requests.Source("PodCertificateRequests", c.requestChanged),
		source.Kind[client.Object](mgr.GetCache(), &corev1.Service{}, c.serviceHandler()),
		source.Kind[client.Object](mgr.GetCache(), optedIn(), namespace),
		source.Func(c.watchAuthority),
	} {
		if err := ctrl.Watch(s); err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	return ctrl, nil
}

func (c *Controller) requestChanged(_ context.Context, q facts.Queue, before, after *podcert.Request) {
	switch {
	case after == nil:
		c.answered.Deleted(client.ObjectKeyFromObject(before), before.ResourceVersion)
		c.said.Forget(before.UID)
	case after.Pending:
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)})
	default:
		c.said.Forget(after.UID)
	}
}

// serviceHandler enqueues what may have waited for a Service.
func (c *Controller) serviceHandler() handler.EventHandler {
	changed := func(q facts.Queue, o client.Object) {
		if svc, ok := o.(*corev1.Service); ok && api.Asks(svc) {
			for _, r := range c.pending(svc.Namespace) {
				q.Add(r)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q facts.Queue) { changed(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q facts.Queue) { changed(q, e.ObjectNew) },
	}
}

// watchAuthority enqueues everything that waits whenever the CA changed.
func (c *Controller) watchAuthority(ctx context.Context, q facts.Queue) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.config.AuthorityChanged:
				for _, r := range c.requests.List() {
					if r.Pending {
						q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r)})
					}
				}
			}
		}
	}()
	return nil
}

// pending returns the requests of a namespace that have no answer.
func (c *Controller) pending(namespace string) []reconcile.Request {
	var requests []reconcile.Request
	for _, r := range c.requests.ByIndex(byNamespace, namespace) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r)})
	}
	return requests
}
