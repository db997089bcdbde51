package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

func enqueue(q facts.Queue, namespace, name string) {
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
}

// enqueueAsked enqueues the Secret that a Service requests. A Secret without a key pair gets a
// higher priority: when the process starts, the previous leader may have left thousands of
// Secrets half done. Of two priorities the queue keeps the higher.
func (c *Controller) enqueueAsked(q facts.Queue, r reconcile.Request) {
	q.Add(r)
	if c.missing(r) {
		enqueueAs(q, ratelimit.PriorityMissing, r)
	}
}

// missing reports whether the Secret holds no valid key pair, or has not been read yet.
func (c *Controller) missing(r reconcile.Request) bool {
	if e := c.externals.get(r.NamespacedName); e != nil {
		return e.Defect != ""
	}
	f := c.secrets.Get(r.NamespacedName)
	return f == nil || f.Defect != ""
}

// enqueueAs enqueues with a priority: all queues of this package are priority queues.
func enqueueAs(q facts.Queue, priority int, r reconcile.Request) {
	q.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, r)
}

// serviceChanged enqueues the target of a Service, its target before the change, and the Secrets
// that it owns. The deleted Service may be the last of its namespace.
func (c *Controller) serviceChanged(ctx context.Context, q facts.Queue, before, after *corev1.Service) {
	if after == nil {
		c.fanOut.Do(before.Namespace, "metrics", func() { c.forgetUnused(ctx, before.Namespace) })
	}
	for _, svc := range []*corev1.Service{before, after} {
		if svc == nil {
			continue
		}
		if t, ok := targetOfService(svc); ok {
			c.enqueueAsked(q, t.request())
		}
		c.enqueueOwned(q, svc)
	}
}

// enqueueOwned enqueues the Secrets that a Service owns, by the fan-out since there may be any
// number of them.
func (c *Controller) enqueueOwned(q facts.Queue, svc *corev1.Service) {
	c.fanOut.Do(svc.Namespace, "owned/"+string(svc.UID), func() {
		for _, f := range c.secrets.ByIndex(byOwner, string(svc.UID)) {
			enqueue(q, f.Namespace, f.Name)
		}
	})
}

// namespaceHandler enqueues every Secret of a namespace that was opted in or out, or is being
// deleted. It also deletes the metrics of a namespace that was deleted or opted out.
func (c *Controller) namespaceHandler() handler.EventHandler {
	enqueueAll := func(q facts.Queue, namespace string) {
		c.fanOut.Do(namespace, "namespace", func() {
			for _, r := range c.requestsIn(namespace) {
				q.Add(r)
			}
		})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q facts.Queue) { enqueueAll(q, e.Object.GetName()) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q facts.Queue) {
			before, after := e.ObjectOld, e.ObjectNew
			if before.GetUID() != after.GetUID() || (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) {
				enqueueAll(q, after.GetName())
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q facts.Queue) {
			enqueueAll(q, e.Object.GetName())
			c.metrics.forget(e.Object.GetName())
			c.externals.forget(e.Object.GetName())
		},
	}
}

// unmanagedHandler enqueues an unmanaged Secret: it may no longer block a managed one, or be a
// managed one that lost its label.
func unmanagedHandler() handler.EventHandler { return &handler.EnqueueRequestForObject{} }

// requestsIn returns the requests of a namespace, or of all namespaces if it is empty.
func (c *Controller) requestsIn(namespace string) []reconcile.Request {
	seen := map[reconcile.Request]bool{}
	for svc := range c.services.In(namespace) {
		if t, ok := targetOfService(svc); ok {
			seen[t.request()] = true
		}
	}
	for f := range c.secrets.In(namespace) {
		seen[reconcile.Request{NamespacedName: types.NamespacedName{Namespace: f.Namespace, Name: f.Name}}] = true
	}
	return slices.AppendSeq(make([]reconcile.Request, 0, len(seen)), maps.Keys(seen))
}

// startFanOut runs the work that handlers give to the fan-out.
func (c *Controller) startFanOut(ctx context.Context, _ facts.Queue) error {
	go c.fanOut.Run(ctx)
	return nil
}

// watchAuthority enqueues everything whenever the CA changed.
func (c *Controller) watchAuthority(ctx context.Context, q facts.Queue) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.config.AuthorityChanged:
				c.enqueueAll(q, c.requestsIn(""))
			}
		}
	}()
	return nil
}

// enqueueAll enqueues the requests after a change of the CA, which includes the first CA that a
// leader reads. Those of servingcert's own namespace have the highest priority. The webhook's
// certificate is among them: if all earlier roots were dropped, no pod can be created in an
// opted-in namespace until it is replaced. Enqueuing it first is not enough, since other
// namespaces may already wait for their turn. Renewals have the lowest priority: thousands of
// them would delay the certificate of a new Service in their namespace.
func (c *Controller) enqueueAll(q facts.Queue, requests []reconcile.Request) {
	for _, r := range requests {
		priority := ratelimit.PriorityRenewal
		switch {
		case r.Namespace == c.config.Namespace:
			priority = ratelimit.PriorityOwn
		case c.missing(r):
			priority = ratelimit.PriorityMissing
		}
		enqueueAs(q, priority, r)
	}
}

// secretChanged enqueues a managed Secret and, if its owners changed, the Secrets of its
// former owners.
func (c *Controller) secretChanged(_ context.Context, q facts.Queue, before, after *signer.SecretFacts) {
	f := cmp.Or(after, before)
	enqueue(q, f.Namespace, f.Name)
	if before != nil && (after == nil || !before.SameOwners(after)) {
		c.enqueueOwners(q, before)
	}
}

// enqueueOwners enqueues the Secrets that the owners of a Secret request, and the
// others that they own, since the conditions of the owners name these.
func (c *Controller) enqueueOwners(q facts.Queue, f *signer.SecretFacts) {
	_, owners := c.services.partIn(f)
	for _, svc := range owners {
		if t, ok := targetOfService(svc); ok {
			q.Add(t.request())
		}
		c.enqueueOwned(q, svc)
	}
}
