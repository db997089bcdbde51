package controller

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/signer"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func enqueue(q queue, namespace, name string) {
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
}

// serviceHandler enqueues the Secret that a Service names, the one that it named
// before, and those that it owns. The empty name stands for the Services of the
// namespace that name none and may still have our condition.
func (c *Controller) serviceHandler() handler.EventHandler {
	changed := func(q queue, objects ...client.Object) {
		for _, o := range objects {
			svc, ok := o.(*corev1.Service)
			if !ok {
				continue
			}
			if name, ok := nameOf(svc); ok {
				enqueue(q, svc.Namespace, name)
			}
			for _, f := range c.secrets.ownedBy(svc.UID) {
				enqueue(q, f.Namespace, f.Name)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { changed(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { changed(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			changed(q, e.Object)
			c.wroteStatus.deleted(client.ObjectKeyFromObject(e.Object), e.Object.GetResourceVersion())
		},
	}
}

// namespaceHandler enqueues every Secret of a namespace that was opted in or out.
func (c *Controller) namespaceHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return c.requestsIn(ctx, o.GetName())
	})
}

// obstacleHandler enqueues what may have waited for a Secret that is not ours,
// or have lost its label.
func obstacleHandler() handler.EventHandler { return &handler.EnqueueRequestForObject{} }

// requestsIn returns the requests of a namespace, or of all if it is empty.
func (c *Controller) requestsIn(ctx context.Context, namespace string) []reconcile.Request {
	seen := map[types.NamespacedName]bool{}
	var list corev1.ServiceList
	if err := c.services.List(ctx, &list, client.InNamespace(namespace)); err == nil { // the cache does not fail
		for i := range list.Items {
			if name, ok := nameOf(&list.Items[i]); ok {
				seen[types.NamespacedName{Namespace: list.Items[i].Namespace, Name: name}] = true
			}
		}
	}
	for _, f := range c.secrets.all() {
		if namespace == "" || f.Namespace == namespace {
			seen[types.NamespacedName{Namespace: f.Namespace, Name: f.Name}] = true
		}
	}
	requests := make([]reconcile.Request, 0, len(seen))
	for key := range seen {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// watchAuthority enqueues everything whenever the CA changed.
func (c *Controller) watchAuthority(ctx context.Context, q queue) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.config.AuthorityChanged:
				for _, r := range c.requestsIn(ctx, "") {
					q.Add(r)
				}
			}
		}
	}()
	return nil
}

// secretSource enqueues the Secrets of the secretCache.
type secretSource struct{ c *Controller }

// String names the source in logs.
func (s *secretSource) String() string { return "managed Secrets" }

// WaitForSync returns once all Secrets that exist are in the cache: decided
// before, they would seem to be missing.
func (s *secretSource) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.c.secrets.HasSynced) {
		return errors.New("the cache of managed Secrets did not fill")
	}
	return nil
}

// Start implements source.Source.
func (s *secretSource) Start(ctx context.Context, q queue) error {
	changed := func(object any) *signer.SecretFacts {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		f, ok := object.(*signer.SecretFacts)
		if !ok {
			return nil
		}
		enqueue(q, f.Namespace, f.Name)
		return f
	}
	_, err := s.c.secrets.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { changed(object) },
		UpdateFunc: func(old, object any) {
			f := changed(object)
			if before, ok := old.(*signer.SecretFacts); ok && f != nil && !slices.EqualFunc(before.OwnerReferences, f.OwnerReferences, signer.SameOwner) {
				s.c.enqueueOwners(ctx, q, before)
			}
		},
		DeleteFunc: func(object any) {
			if f := changed(object); f != nil {
				s.c.wroteSecret.deleted(types.NamespacedName{Namespace: f.Namespace, Name: f.Name}, f.ResourceVersion)
				s.c.enqueueOwners(ctx, q, f)
			}
		},
	})
	return err
}

// enqueueOwners enqueues the Secrets that the owners of one ask for now: their
// conditions tell of it if it is another. One that asks for none any more is
// filed under the empty name, and has nothing of ours left.
func (c *Controller) enqueueOwners(ctx context.Context, q queue, f *signer.SecretFacts) {
	_, owning, err := c.services.partIn(ctx, f)
	if err != nil {
		return // the cache does not fail
	}
	for _, svc := range owning {
		if name, ok := nameOf(svc); ok {
			enqueue(q, svc.Namespace, name)
		}
	}
}
