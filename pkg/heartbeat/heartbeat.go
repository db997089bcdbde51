// Package heartbeat finds work that does not end. What works says when it begins and ends
// ([Going]); who looks now and then sees what is still the same work ([Seen]). A process that is
// stuck on one object is alive by every other sign: its port answers, and its Lease is renewed.
package heartbeat

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Work is one object that something is busy with.
type Work struct {
	id     uint64 // of no other work of the process
	Worker string // what is busy, such as `controller "signer"`
	Object types.NamespacedName
}

// Going is the work that has begun and has not ended. The zero value is ready to use.
type Going struct {
	mu   sync.Mutex
	last uint64
	work map[uint64]Work
}

// Process is the work of this process. Like the registry of its metrics there is one, whatever
// runs in it, and one port that shows it.
var Process Going

// Begin says that a worker is busy with an object. It is until end is called.
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

// Now returns the work that is going on, what began first at the front.
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

// Seen is since when work has been seen to go on.
type Seen map[uint64]time.Time

// Look returns what is seen after a look at the work that is going on now.
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

// Since returns since when the work has been seen.
func (s Seen) Since(w Work) time.Time { return s[w.id] }

// Stuck returns the work that has been seen for as long as patience or longer.
func (s Seen) Stuck(going []Work, now time.Time, patience time.Duration) []Work {
	return slices.DeleteFunc(slices.Clone(going), func(w Work) bool {
		since, seen := s[w.id]
		return !seen || now.Sub(since) < patience
	})
}

// Describe returns nil if no work is stuck, and otherwise an error that names who is. It does not
// name the objects: whoever reaches the port reads it.
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
