package controller

import (
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// eventsPerNamespace bounds the log lines and events of a namespace, because whoever may write pods
// and their status controls the findings. Further findings are only counted.
var eventsPerNamespace = limit.Limit{Burst: 50, Interval: 10 * time.Second}

// eventLimiter bounds the reported findings of a namespace. It is safe for concurrent use.
type eventLimiter struct {
	mu         sync.Mutex
	namespaces *limit.Keyed[string]
}

func newEventLimiter() *eventLimiter {
	return &eventLimiter{namespaces: limit.NewKeyed[string](eventsPerNamespace)}
}

// take reports whether one more finding of the namespace may be reported now.
func (l *eventLimiter) take(namespace string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.namespaces.At(namespace, now, 1).After(now) {
		return false
	}
	l.namespaces.Sweep(now)
	l.namespaces.Take(namespace, now, 1)
	return true
}
