package requests

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/facts/queue"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Clientset returns the clientset of a controller of requests. It uses protobuf: a request is
// mostly PEM, which JSON would encode again.
func Clientset(mgr manager.Manager) (*kubernetes.Clientset, error) {
	cfg := rest.CopyConfig(mgr.GetConfig())
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfigAndClient(cfg, mgr.GetHTTPClient())
}

// AddressedTo selects the requests for a signer.
func AddressedTo(signerName string) fields.Selector {
	return fields.OneTermEqualSelector("spec.signerName", signerName)
}

// Affected finds the requests to decide again after a change.
type Affected[R Request] struct {
	// ByService is for a change of a Service that requests a certificate.
	ByService func(svc *corev1.Service) []R
	// ByNamespace is for a change of the label of a namespace.
	ByNamespace func(name string) []R
}

// Controller returns a controller that reconciles each request that changed, and those affected
// by a change of a Service, a namespace or the CA. It is not added to the manager.
func (f *Followed[R]) Controller(mgr manager.Manager, name string, reconciler reconcile.Reconciler, affected Affected[R]) (controller.Controller, error) {
	namespace := func(q facts.Queue, o client.Object) {
		f.EnqueueLater(q, o.GetName(), "namespace", func() []R { return affected.ByNamespace(o.GetName()) })
	}
	return f.ControllerOf(mgr, name, reconciler,
		f.config.Cluster.services.Changes("Services", f.serviceHandler(affected.ByService)),
		source.Kind[client.Object](mgr.GetCache(), facts.Metadata("Namespace"), handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q facts.Queue) { namespace(q, e.Object) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q facts.Queue) { namespace(q, e.ObjectNew) },
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, q facts.Queue) { namespace(q, e.Object) },
		}, facts.Changed()),
		source.Func(func(ctx context.Context, q facts.Queue) error { go f.watchAuthority(ctx, q); return nil }),
	)
}

// ControllerOf returns a controller that reconciles each request that changed, and those that
// the sources enqueue by Enqueue or EnqueueLater. It is not added to the manager.
func (f *Followed[R]) ControllerOf(mgr manager.Manager, name string, reconciler reconcile.Reconciler, sources ...source.Source) (controller.Controller, error) {
	fanOut := source.Func(func(ctx context.Context, _ facts.Queue) error { go f.fanOut.Run(ctx); return nil })
	return facts.NewController(mgr, name, controller.Options{
		Reconciler:              reconciler,
		MaxConcurrentReconciles: f.config.Workers,
		RateLimiter:             queue.Retries(),
		NewQueue:                queue.ForWorkers(f.config.Workers),
	}, append([]source.Source{f.requests.Source(name, f.changed), fanOut}, sources...)...)
}

// Enqueue enqueues the pending requests among all.
func Enqueue[R Request](q facts.Queue, all []R) {
	for _, r := range pending(all) {
		q.Add(r)
	}
}

// EnqueueLater finds and enqueues pending requests by the fan-out, in a turn of the tenant, since
// there may be any number of them. The name identifies the changed object.
func (f *Followed[R]) EnqueueLater(q facts.Queue, tenant, name string, find func() []R) {
	f.fanOut.Do(tenant, name, func() { Enqueue(q, find()) })
}

// changed enqueues a pending request, and forgets one that is no longer pending. It forgets
// before, since the Facts of an answered request have no tenant.
func (f *Followed[R]) changed(_ context.Context, q facts.Queue, before, after R) {
	var none R
	if after != none && after.IsPending() {
		q.Add(item(after))
	}
	if before != none && before.IsPending() && answered(before, after) {
		f.forget(before)
	}
}

// serviceHandler enqueues the requests that a change of a Service affects.
func (f *Followed[R]) serviceHandler(affected func(svc *corev1.Service) []R) facts.Handler[*corev1.Service] {
	return func(_ context.Context, q facts.Queue, before, after *corev1.Service) {
		if after == nil || !api.AsksSigner(after) || before != nil && !matters(before, after) {
			return
		}
		f.EnqueueLater(q, after.Namespace, "service/"+after.Name, func() []R { return affected(after) })
	}
}

// matters reports whether the change of a Service can affect a request.
func matters(before, after *corev1.Service) bool {
	return state.ReadyOf(before).Proof != state.ReadyOf(after).Proof ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Annotations, after.Annotations)
}

// watchAuthority enqueues all pending requests whenever the CA changed, until ctx ends.
func (f *Followed[R]) watchAuthority(ctx context.Context, q facts.Queue) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.config.AuthorityChanged:
			if ca, limits, err := f.config.CA(); err == nil && pki.TrustDomainOf(ca.Certificate) == "" {
				f.config.Cluster.limit(limits)
			}
			Enqueue(q, f.requests.List())
		}
	}
}

// pending returns the queue's keys of the pending requests among all.
func pending[R Request](all []R) (items []reconcile.Request) {
	for _, r := range all {
		if r.IsPending() {
			items = append(items, item(r))
		}
	}
	return items
}
