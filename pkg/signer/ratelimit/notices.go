package ratelimit

import (
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Limits of the events that say that a namespace is not opted in: anybody who may write Services
// of a namespace can cause them.
var (
	noticesOfNamespace = limit.Limit{Burst: 10, Interval: time.Minute}
	noticesOfAll       = limit.Limit{Burst: 100, Interval: time.Second}
)

// Notices bounds how many such events there are. It is safe for concurrent use.
type Notices struct {
	mu         sync.Mutex
	all        time.Time // when all of noticesOfAll is there again
	namespaces *limit.Keyed[string]
}

// NewNotices returns Notices of which nothing was used.
func NewNotices() *Notices {
	return &Notices{namespaces: limit.NewKeyed[string](noticesOfNamespace)}
}

// Take reports whether there may be an event in the namespace now, and counts it.
func (n *Notices) Take(namespace string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, all := noticesOfAll.Take(n.all, now, 1)
	if limit.Latest(at, n.namespaces.At(namespace, now, 1)).After(now) {
		return false
	}
	n.all = all
	n.namespaces.Sweep(now)
	n.namespaces.Take(namespace, now, 1)
	return true
}
