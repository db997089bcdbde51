package queue

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/fairqueue"
)

// fairQueue is a controller's queue, in the order of fairqueue.Queue. client-go's queue provides everything
// else: deduplication, delays, the rate limiter and metrics. As in controller-runtime's priority queue, a
// request has the highest priority with which it was added since it was last taken.
type fairQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	order   *turns
}

// fairQueue is a priority queue, so that event handlers set priorities.
var _ priorityqueue.PriorityQueue[reconcile.Request] = (*fairQueue)(nil)

// ForWorkers returns a controller.Options.NewQueue for a controller with a number of workers. The tenant of
// a request is its namespace, or its name if it has no namespace. If there are several workers, a tenant
// occupies at most all but one, so that other tenants need not wait for its requests.
func ForWorkers(workers int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return newQueue(name, limiter, max(1, workers-1))
	}
}

// New is ForWorkers without a limit: one tenant may occupy all workers.
func New(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return newQueue(name, limiter, 0)
}

func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], perTenant int) *fairQueue {
	order := &turns{turns: fairqueue.Queue[reconcile.Request]{PerTenant: perTenant}, noted: map[reconcile.Request]int{}, taken: map[reconcile.Request]int{}}
	ready := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: order})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: ready})
	return &fairQueue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying}),
		limiter: limiter,
		order:   order,
	}
}

// AddWithOpts adds requests. With both a delay and a rate limit, the shorter delay applies.
func (q *fairQueue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	priority := 0
	if o.Priority != nil {
		priority = *o.Priority
	}
	for _, r := range requests {
		q.order.note(r, priority)
		after := o.After
		if o.RateLimited {
			if limited := q.limiter.When(r); after == 0 || limited < after {
				after = limited
			}
		}
		q.TypedRateLimitingInterface.AddAfter(r, after) // immediately if it is zero
	}
}

// Add adds the request with priority 0.
func (q *fairQueue) Add(r reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, r) }

// AddAfter adds the request with priority 0 after the delay.
func (q *fairQueue) AddAfter(r reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, r)
}

// AddRateLimited adds the request with priority 0 after the delay of the rate limiter.
func (q *fairQueue) AddRateLimited(r reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, r)
}

// Get waits for the next request. Unlike client-go's, it returns none after ShutDown, because the context of
// the workers has ended.
func (q *fairQueue) Get() (r reconcile.Request, shutdown bool) {
	r, shutdown = q.TypedRateLimitingInterface.Get()
	if !shutdown && q.ShuttingDown() {
		q.Done(r)
		return reconcile.Request{}, true
	}
	return r, shutdown
}

// GetWithPriority waits for the next request.
func (q *fairQueue) GetWithPriority() (r reconcile.Request, priority int, shutdown bool) {
	r, shutdown = q.Get()
	return r, q.order.priorityOf(r), shutdown
}

// Done marks a request as no longer in progress. It is queued again if it was added meanwhile.
func (q *fairQueue) Done(r reconcile.Request) {
	q.order.done(r)
	q.TypedRateLimitingInterface.Done(r)
}

// turns has the requests that are ready. client-go's queue never pushes one that is queued already or in
// progress.
type turns struct {
	mu    sync.Mutex
	turns fairqueue.Queue[reconcile.Request]
	// noted has the priorities of requests that were added and not yet taken, except the lowest,
	// handler.LowPriority, which every certificate has that waits for its renewal.
	noted map[reconcile.Request]int
	// taken has the priorities of requests in progress.
	taken map[reconcile.Request]int
}

// tenantOf returns the tenant of a request.
func tenantOf(r reconcile.Request) string { return cmp.Or(r.Namespace, r.Name) }

// note records the priority with which a request is added.
func (t *turns) note(r reconcile.Request, priority int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if priority > t.notedOf(r) {
		t.noted[r] = priority
		t.turns.Raise(tenantOf(r), r, priority)
	}
}

// notedOf returns the highest priority with which the request was added since it was last taken.
func (t *turns) notedOf(r reconcile.Request) int {
	if priority, there := t.noted[r]; there {
		return priority
	}
	return handler.LowPriority
}

func (t *turns) priorityOf(r reconcile.Request) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken[r]
}

func (t *turns) done(r reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, r)
	t.turns.Done(tenantOf(r))
}

// Touch does nothing: note has raised the priority.
func (t *turns) Touch(reconcile.Request) {}

// Push adds a request that is ready.
func (t *turns) Push(r reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns.Add(tenantOf(r), r, t.notedOf(r))
}

// Len returns the number of ready requests, or 0 if their tenants all occupy their maximum number of workers.
// client-go's queue then waits, and calls Len again when a worker is done.
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.turns.Ready() {
		return 0
	}
	return t.turns.Len()
}

// Pop takes the next request.
func (t *turns) Pop() reconcile.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, r, priority, _ := t.turns.Next() // client-go calls Pop only if Len is positive
	if delete(t.noted, r); len(t.noted) == 0 {
		t.noted = map[reconcile.Request]int{} // a map does not shrink, and after the start it is large
	}
	t.taken[r] = priority
	return r
}
