package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/facts"
)

// Trigger is a source that enqueues on request. It keeps requests from before its start.
type Trigger struct {
	name  string
	delay time.Duration

	mu    sync.Mutex
	queue facts.Queue
	early map[types.NamespacedName]bool
}

// NewTrigger returns a Trigger that enqueues after the delay. Requests for the same key within the
// delay are merged. The name is for logs.
func NewTrigger(name string, delay time.Duration) *Trigger {
	return &Trigger{name: name, delay: delay, early: map[types.NamespacedName]bool{}}
}

// String returns the name of the source, for logs.
func (t *Trigger) String() string { return t.name }

// Start implements source.Source.
func (t *Trigger) Start(_ context.Context, q facts.Queue) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = q
	for key := range t.early {
		q.AddAfter(reconcile.Request{NamespacedName: key}, t.delay)
	}
	t.early = nil
	return nil
}

// Enqueue enqueues the key.
func (t *Trigger) Enqueue(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.AddAfter(reconcile.Request{NamespacedName: key}, t.delay)
		return
	}
	t.early[key] = true
}

// EnqueueNamespace enqueues a key whose name is the namespace.
func (t *Trigger) EnqueueNamespace(namespace string) {
	t.Enqueue(types.NamespacedName{Name: namespace})
}
