package controller

import (
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// toldOfNamespace: whoever may write pods and their status in a namespace decides what is found
// there, so what is logged, and which events are written, is bounded. What is beyond is counted.
var toldOfNamespace = limit.Limit{Burst: 50, Interval: 10 * time.Second}

// told bounds how many findings of a namespace are told. It is safe for concurrent use.
type told struct {
	mu         sync.Mutex
	namespaces *limit.Keyed[string]
}

func newTold() *told { return &told{namespaces: limit.NewKeyed[string](toldOfNamespace)} }

// take reports whether one more finding of the namespace is told now.
func (t *told) take(namespace string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.namespaces.At(namespace, now, 1).After(now) {
		return false
	}
	t.namespaces.Sweep(now)
	t.namespaces.Take(namespace, now, 1)
	return true
}
