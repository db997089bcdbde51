package controller

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Whoever may write pods and their status in a namespace decides what is found there, so what is
// logged, and which events are written, is bounded. What is beyond is counted.
const (
	toldAtOnce = 50
	toldEvery  = 10 * time.Second
	maxLimits  = 1000 // as many are kept at least until those that nobody uses are dropped
)

// told bounds how many findings of a namespace are told. It is safe for concurrent use.
type told struct {
	mu         sync.Mutex
	namespaces map[string]*rate.Limiter
}

func newTold() *told { return &told{namespaces: map[string]*rate.Limiter{}} }

// take reports whether one more finding of the namespace is told now.
func (t *told) take(namespace string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	limiter := t.namespaces[namespace]
	if limiter == nil {
		if len(t.namespaces) >= maxLimits {
			maps.DeleteFunc(t.namespaces, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= toldAtOnce })
		}
		limiter = rate.NewLimiter(rate.Every(toldEvery), toldAtOnce)
		t.namespaces[namespace] = limiter
	}
	return limiter.AllowN(now, 1)
}
