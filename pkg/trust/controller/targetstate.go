package controller

import (
	"maps"
	"slices"
	"sync"

	"github.com/servingcert/servingcert/pkg/trust"
)

// ledger holds what is known of the targets beyond what the caches show: why
// writes failed, and when they were made.
type ledger struct {
	mu      sync.Mutex
	records map[trust.TargetID]trust.Record
	// withdrawn are those whose record was forgotten since takeWithdrawn was called.
	withdrawn map[trust.TargetID]bool
	changed   func() // called after a record changed, without the lock
}

func newLedger(changed func()) *ledger {
	return &ledger{records: map[trust.TargetID]trust.Record{}, withdrawn: map[trust.TargetID]bool{}, changed: changed}
}

func (l *ledger) get(id trust.TargetID) trust.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[id]
}

func (l *ledger) put(id trust.TargetID, r trust.Record) {
	l.mu.Lock()
	before, known := l.records[id]
	l.records[id] = r
	l.mu.Unlock()
	if !known || before != r {
		l.changed()
	}
}

func (l *ledger) forget(id trust.TargetID) {
	l.mu.Lock()
	_, known := l.records[id]
	delete(l.records, id)
	if known {
		l.withdrawn[id] = true
	}
	l.mu.Unlock()
	if known {
		l.changed()
	}
}

// takeWithdrawn returns the targets that were forgotten since the last call: their
// request was withdrawn, even if the caches show it again.
func (l *ledger) takeWithdrawn() []trust.TargetID {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := slices.Collect(maps.Keys(l.withdrawn))
	clear(l.withdrawn)
	return ids
}
