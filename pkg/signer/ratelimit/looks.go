package ratelimit

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Limits of looks at requests that wait. A look costs calls of the API server, so whoever can
// change what many requests wait for must not decide how often.
var (
	// looksOfOne limits how often one request is looked at again.
	looksOfOne = limit.Limit{Burst: 5, Interval: 10 * time.Second}
	// callsOfTenant limits the calls of looks that found nothing, of all requests of a tenant
	// that had been looked at before. As many pods as that may wait for the same Service.
	callsOfTenant = limit.Limit{Burst: 5000, Interval: 20 * time.Millisecond}
)

// Looks bounds how often requests that wait are looked at again, whatever changes. The first look
// at a request, and one that brings an answer, is free. It is safe for concurrent use.
type Looks struct {
	mu      sync.Mutex
	waiting map[types.UID]time.Time // by request: when all of its looks are there again
	tenants *limit.Keyed[string]    // their calls
}

// NewLooks returns Looks of no requests.
func NewLooks() *Looks {
	return &Looks{waiting: map[types.UID]time.Time{}, tenants: limit.NewKeyed[string](callsOfTenant)}
}

// At returns when the request of the tenant may be looked at: not before now.
func (l *Looks) At(tenant string, request types.UID, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, waits := l.waiting[request]
	if !waits {
		return now
	}
	one, _ := looksOfOne.Take(full, now, 1)
	return limit.Latest(one, l.tenants.At(tenant, now, 1))
}

// Waits notes a look at a request, which took so many calls and found that it has to wait.
func (l *Looks) Waits(tenant string, request types.UID, calls int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, again := l.waiting[request]
	if !again {
		l.waiting[request] = now // all of its looks are there
		return
	}
	_, l.waiting[request] = looksOfOne.Take(full, now, 1)
	l.tenants.Sweep(now)
	l.tenants.Take(tenant, now, calls)
}

// Forget forgets a request that waits no more.
func (l *Looks) Forget(request types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, request)
}
