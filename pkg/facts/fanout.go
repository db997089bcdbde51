package facts

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/fairqueue"
	"github.com/servingcert/servingcert/pkg/heartbeat"
)

// FanOut runs work that one change of an object requires for many others, such as to enqueue all Secrets
// of a namespace. A handler of an informer must not do that, because it would block the changes of all
// tenants, and a tenant chooses its number of objects. Tenants take turns. Work that is requested again
// before its turn is done once.
type FanOut struct {
	worker string
	wake   chan struct{}

	mu    sync.Mutex
	turns fairqueue.Queue[string]
	work  map[task]func()
}

type task struct{ tenant, name string }

// NewFanOut returns an idle FanOut. The name is for package heartbeat.
func NewFanOut(name string) *FanOut {
	return &FanOut{worker: `controller "` + name + `"`, wake: make(chan struct{}, 1), work: map[task]func(){}}
}

// Do requests work for a tenant. It replaces waiting work of the same name.
func (f *FanOut) Do(tenant, name string, work func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns.Add(tenant, name, 0)
	f.work[task{tenant, name}] = work
	select {
	case f.wake <- struct{}{}:
	default: // Run is awake
	}
}

// Run does the requested work until ctx ends.
func (f *FanOut) Run(ctx context.Context) {
	for {
		for ctx.Err() == nil && f.Next() {
		}
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
	}
}

// Next does the next piece of work, and returns false if there is none.
func (f *FanOut) Next() bool {
	f.mu.Lock()
	tenant, name, _, some := f.turns.Next()
	work := f.work[task{tenant, name}]
	delete(f.work, task{tenant, name})
	f.mu.Unlock()
	if !some {
		return false
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.turns.Done(tenant)
	}()
	defer heartbeat.Process.Begin(f.worker, types.NamespacedName{Namespace: tenant, Name: name})()
	work()
	return true
}
