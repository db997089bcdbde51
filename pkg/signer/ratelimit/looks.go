package ratelimit

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Limits of repeated decisions about waiting requests. A decision costs API calls, so a user who
// can change an object that many requests wait for must not determine their number.
var (
	// looksOfOne limits the repeated decisions about one request.
	looksOfOne = limit.Limit{Burst: 5, Interval: 10 * time.Second}
	// callsOfTenant limits the API calls of repeated decisions, for all waiting requests of a
	// tenant together. 5000 pods may wait for the same Service.
	callsOfTenant = limit.Limit{Burst: 5000, Interval: 20 * time.Millisecond}
)

// Looks limits how often waiting requests are decided again. The first decision about a request
// is free, and so is one that answers it. It is safe for concurrent use.
type Looks struct {
	mu      sync.Mutex
	waiting map[types.UID]time.Time // by request: when looksOfOne is full again
	tenants *limit.Keyed[string]    // by tenant: the calls
}

// NewLooks returns Looks without requests.
func NewLooks() *Looks {
	return &Looks{waiting: map[types.UID]time.Time{}, tenants: limit.NewKeyed[string](callsOfTenant)}
}

// At returns when the request of the tenant may be decided, now at the earliest.
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

// Waits counts a decision that the request waits, and the API calls that it took.
func (l *Looks) Waits(tenant string, request types.UID, calls int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, again := l.waiting[request]
	if !again {
		l.waiting[request] = now // its limit is full
		return
	}
	_, l.waiting[request] = looksOfOne.Take(full, now, 1)
	l.tenants.Sweep(now)
	l.tenants.Take(tenant, now, calls)
}

// Forget deletes the state of a request that no longer waits.
func (l *Looks) Forget(request types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, request)
}
