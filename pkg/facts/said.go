package facts

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Said remembers what this process said last of each object, so that an event is not sent
// again for every look at it.
type Said struct {
	mu   sync.Mutex
	last map[types.UID]string
}

// NewSaid returns a memory of nothing.
func NewSaid() *Said { return &Said{last: map[types.UID]string{}} }

// First reports whether something else was said of the object last, and remembers it.
func (s *Said) First(object types.UID, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last[object] == what {
		return false
	}
	s.last[object] = what
	return true
}

// Forget forgets what was said of an object of which nothing more will be.
func (s *Said) Forget(object types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, object)
}
