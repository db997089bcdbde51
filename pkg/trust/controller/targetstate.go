package controller

import (
	"maps"
	"slices"
	"sync"

	"github.com/servingcert/servingcert/pkg/trust"
)

// targetState holds what the controllers remember of the targets, beyond the caches: why
// writes failed, and when they were made.
type targetState struct {
	mu      sync.Mutex
	records map[trust.TargetID]trust.Record
	// withdrawn are those whose record was forgotten since takeWithdrawn was called.
	withdrawn map[trust.TargetID]bool
	changed   func() // called after a record changed, without the lock
}

func newTargetState(changed func()) *targetState {
	return &targetState{records: map[trust.TargetID]trust.Record{}, withdrawn: map[trust.TargetID]bool{}, changed: changed}
}

func (s *targetState) get(id trust.TargetID) trust.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[id]
}

func (s *targetState) put(id trust.TargetID, r trust.Record) {
	s.mu.Lock()
	before, known := s.records[id]
	s.records[id] = r
	s.mu.Unlock()
	if !known || before != r {
		s.changed()
	}
}

func (s *targetState) forget(id trust.TargetID) {
	s.mu.Lock()
	_, known := s.records[id]
	delete(s.records, id)
	if known {
		s.withdrawn[id] = true
	}
	s.mu.Unlock()
	if known {
		s.changed()
	}
}

// takeWithdrawn returns the targets that were forgotten since the last call: their
// request was withdrawn, even if the caches show it again.
func (s *targetState) takeWithdrawn() []trust.TargetID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Collect(maps.Keys(s.withdrawn))
	clear(s.withdrawn)
	return ids
}
