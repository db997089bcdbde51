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

// fairQueue is a controller's queue, in the order of fairqueue.Queue. What waits and what
// is worked on, delays, the rate limiter and metrics are those of client-go's queue. As in
// controller-runtime's priority queue, a request has the highest of the priorities that it
// was added with since it was last taken.
type fairQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	order   *turns
}

// fairQueue is one, so that event handlers say which requests are less urgent.
var _ priorityqueue.PriorityQueue[reconcile.Request] = (*fairQueue)(nil)

// ForWorkers returns a controller.Options.NewQueue for a controller with so many workers. The
// namespace of a request says whose turn it takes, or its name if it has none. If there are several
// workers, one tenant occupies all but one of them, so that somebody else's request does not wait
// until one of theirs is done.
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

// AddWithOpts adds requests. Of a delay and the delay of the rate limiter, the shorter
// one counts.
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
		q.TypedRateLimitingInterface.AddAfter(r, after) // at once if it is zero
	}
}

// Add adds the request with priority 0.
func (q *fairQueue) Add(r reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, r) }

// AddAfter adds the request with priority 0 once the delay is over.
func (q *fairQueue) AddAfter(r reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, r)
}

// AddRateLimited adds the request with priority 0 when the rate limiter says.
func (q *fairQueue) AddRateLimited(r reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, r)
}

// Get waits for the next request. Unlike client-go's, it gives out none after ShutDown: the
// context of those who would work on it is over.
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

// Done says that the request is no longer being worked on. It is in the queue again if it
// was added meanwhile.
func (q *fairQueue) Done(r reconcile.Request) {
	q.order.done(r)
	q.TypedRateLimitingInterface.Done(r)
}

// turns are the requests that are ready. client-go's queue never pushes one that is
// there already or that is being worked on.
type turns struct {
	mu    sync.Mutex
	turns fairqueue.Queue[reconcile.Request]
	// noted are the priorities of requests that were added and not yet taken. The lowest,
	// handler.LowPriority, is not in it: that of every certificate that waits for its time.
	noted map[reconcile.Request]int
	// taken are the priorities of those that are being worked on.
	taken map[reconcile.Request]int
}

// tenantOf returns whose turn a request takes.
func tenantOf(r reconcile.Request) string { return cmp.Or(r.Namespace, r.Name) }

// note remembers with which priority the request is added.
func (t *turns) note(r reconcile.Request, priority int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if priority > t.notedOf(r) {
		t.noted[r] = priority
		t.turns.Raise(tenantOf(r), r, priority)
	}
}

// notedOf returns the highest priority that the request was added with since it was last taken.
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

// Len returns how many requests are ready, and 0 if they are all of tenants that occupy as many
// workers as they may. client-go's queue then waits; the worker that ends asks again.
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
	_, r, priority, _ := t.turns.Next() // client-go asks only if there is one
	if delete(t.noted, r); len(t.noted) == 0 {
		t.noted = map[reconcile.Request]int{} // a map does not shrink, and at a start it has all
	}
	t.taken[r] = priority
	return r
}
