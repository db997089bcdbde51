package signer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Limits of looks at requests that wait. A look costs calls of the API server, so whoever can
// change what many requests wait for must not decide how often.
var (
	// looksOfOne limits how often one request is looked at again.
	looksOfOne = Limit{Burst: 5, Interval: 10 * time.Second}
	// callsOfTenant limits the calls of looks that found nothing, of all requests of a tenant
	// that had been looked at before. As many pods as that may wait for the same Service.
	callsOfTenant = Limit{Burst: 5000, Interval: 20 * time.Millisecond}
)

// Looks bounds how often requests that wait are looked at again, whatever changes. The first look
// at a request, and one that brings an answer, is free. It is safe for concurrent use.
type Looks struct {
	mu      sync.Mutex
	waiting map[types.UID]time.Time // by request: when all of its looks are there again
	tenants map[string]time.Time    // when all of their calls are there again
	sweepAt int                     // how many tenants there are at the next sweep
}

// NewLooks returns Looks of no requests.
func NewLooks() *Looks {
	return &Looks{waiting: map[types.UID]time.Time{}, tenants: map[string]time.Time{}, sweepAt: minSweep}
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
	all, _ := callsOfTenant.Take(l.tenants[tenant], now, 1)
	return latest(one, all)
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
	l.sweep(now)
	_, l.tenants[tenant] = callsOfTenant.Take(l.tenants[tenant], now, calls)
}

// sweep forgets tenants that have used nothing, as that of Pace does.
func (l *Looks) sweep(now time.Time) {
	if len(l.tenants) < l.sweepAt {
		return
	}
	forgetFull(l.tenants, now)
	l.sweepAt = max(minSweep, 2*len(l.tenants))
}

// Forget forgets a request that waits no more.
func (l *Looks) Forget(request types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, request)
}
