// Package heartbeat finds work that does not end. Workers record when work begins and ends
// ([Going]); an observer that reads this regularly sees work that has not changed ([Seen]). A
// process that is stuck on one object otherwise looks healthy: its port answers, and its Lease is
// renewed.
package heartbeat

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Work is the processing of one object.
type Work struct {
	id     uint64 // unique in the process
	Worker string // such as `controller "signer"`
	Object types.NamespacedName
}

// Going is the work in progress. The zero value is ready to use.
type Going struct {
	mu   sync.Mutex
	last uint64
	work map[uint64]Work
}

// Process is the work of this process. There is one, like the metrics registry, whatever runs in
// the process.
var Process Going

// Begin records that a worker processes an object until end is called.
func (g *Going) Begin(worker string, object types.NamespacedName) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.work == nil {
		g.work = map[uint64]Work{}
	}
	g.last++
	id := g.last
	g.work[id] = Work{id, worker, object}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.work, id)
	}
}

// Now returns the work in progress, oldest first.
func (g *Going) Now() []Work {
	g.mu.Lock()
	defer g.mu.Unlock()
	work := make([]Work, 0, len(g.work))
	for _, w := range g.work {
		work = append(work, w)
	}
	slices.SortFunc(work, func(a, b Work) int { return cmp.Compare(a.id, b.id) })
	return work
}

// Seen maps work to the time since when it has been observed.
type Seen map[uint64]time.Time

// Look returns s updated with the work in progress now.
func (s Seen) Look(going []Work, now time.Time) Seen {
	next := make(Seen, len(going))
	for _, w := range going {
		next[w.id] = now
		if since, before := s[w.id]; before {
			next[w.id] = since
		}
	}
	return next
}

// Since returns since when the work has been observed.
func (s Seen) Since(w Work) time.Time { return s[w.id] }

// Stuck returns the work that has been observed for at least patience.
func (s Seen) Stuck(going []Work, now time.Time, patience time.Duration) []Work {
	return slices.DeleteFunc(slices.Clone(going), func(w Work) bool {
		since, seen := s[w.id]
		return !seen || now.Sub(since) < patience
	})
}

// Describe returns nil if no work is stuck, and otherwise an error that names the worker. It does
// not name the objects, because anyone who can connect to the port can read it.
func Describe(stuck []Work, patience time.Duration) error {
	if len(stuck) == 0 {
		return nil
	}
	more := ""
	if n := len(stuck) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("%s has been busy with one object for more than %s%s: the log names it", stuck[0].Worker, patience, more)
}
