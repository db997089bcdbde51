package ratelimit

import (
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Limits of the events that report a namespace that is not opted in: any user who may write its
// Services can cause them.
var (
	noticesOfNamespace = limit.Limit{Burst: 10, Interval: time.Minute}
	noticesOfAll       = limit.Limit{Burst: 100, Interval: time.Second}
)

// NoticeLimiter limits these events. It is safe for concurrent use.
type NoticeLimiter struct {
	mu         sync.Mutex
	all        time.Time // when noticesOfAll is full again
	namespaces *limit.Keyed[string]
}

// NewNoticeLimiter returns an unused NoticeLimiter.
func NewNoticeLimiter() *NoticeLimiter {
	return &NoticeLimiter{namespaces: limit.NewKeyed[string](noticesOfNamespace)}
}

// Take reports whether an event in the namespace is allowed now, and counts it.
func (n *NoticeLimiter) Take(namespace string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, all := noticesOfAll.Take(n.all, now, 1)
	if at.After(now) || !n.namespaces.Allow(namespace, now) {
		return false
	}
	n.all = all
	return true
}
