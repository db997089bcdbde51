package trust

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// target identifies one target.
type target struct {
	kind string
	key  types.NamespacedName
}

// record is what the last look at a target led to.
type record struct {
	Judgement
	hash     string    // of the bundle that it was judged against
	heldHash string    // the last bundle that it was seen to hold
	wrote    string    // the bundle that was last written to it
	wroteAt  time.Time // and when

	heldAt    time.Time // since when it holds the bundle, if it does
	openSince time.Time // since when it has not steadily held it; zero if it was never seen without
	told      Reason    // why it refuses the bundle, as people were told
}

// ledger is what is known of the targets beyond what the caches say: why writes
// failed, and when they were made. Losing it costs an attempt.
type ledger struct {
	mu      sync.Mutex
	records map[target]record
	changed func() // called after a record changed, without the lock
}

func newLedger(changed func()) *ledger {
	return &ledger{records: map[target]record{}, changed: changed}
}

func (l *ledger) get(t target) record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[t]
}

func (l *ledger) put(t target, r record) {
	l.mu.Lock()
	before, known := l.records[t]
	l.records[t] = r
	l.mu.Unlock()
	if !known || before != r {
		l.changed()
	}
}

func (l *ledger) forget(t target) {
	l.mu.Lock()
	_, known := l.records[t]
	delete(l.records, t)
	l.mu.Unlock()
	if known {
		l.changed()
	}
}
