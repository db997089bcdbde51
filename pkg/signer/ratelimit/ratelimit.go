// Package ratelimit limits how often certificates are issued, how often pending requests are decided
// and how many events report a namespace that is not opted in. It also defines priorities in the queue.
package ratelimit

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Rates limit how often certificates are issued.
type Rates struct {
	Secret    limit.Limit // certificates of one Secret, or of one Share.Subject
	Namespace limit.Limit // those that users of one namespace cause; see signer.Decision and Share
}

// DefaultRates returns the rates of a signer that is started without flags.
func DefaultRates() Rates {
	return Rates{Secret: limit.Limit{Burst: 20, Interval: time.Minute}, Namespace: limit.Limit{Burst: 1000, Interval: time.Second}}
}

// Slot is when a Secret, or a request, may have its next certificate. Zero: no tokens are
// reserved for it.
type Slot struct {
	Secret    time.Time // by Rates.Secret
	Namespace time.Time // by Rates.Namespace
}

// At returns when both limits permit the certificate.
func (s Slot) At() time.Time { return limit.Latest(s.Secret, s.Namespace) }

// reached returns the time of the slot, and a message about the limit that determines it.
// subject names what Rates.Secret limits, and group what Rates.Namespace does.
func (r Rates) reached(slot Slot, subject, group string) (at time.Time, limit string) {
	if slot.Namespace.After(slot.Secret) {
		return slot.Namespace, fmt.Sprintf("too many certificates were issued: the limit for %s is reached (%s)", group, r.Namespace)
	}
	return slot.Secret, fmt.Sprintf("too many certificates were issued: the limit for %s is reached (%s)", subject, r.Secret)
}

// Next returns when the Secret with the slot may have its next certificate, and a message that
// is valid until that time.
func (r Rates) Next(slot Slot) (at time.Time, why string) {
	at, limit := r.reached(slot, "one Secret", oneNamespace)
	return at, fmt.Sprintf("%s; the next one for this Secret is issued at %s", limit, wholeSecond(at))
}

// wholeSecond returns the time in RFC 3339, rounded up to a second.
func wholeSecond(at time.Time) string {
	return at.Add(time.Second - 1).Truncate(time.Second).UTC().Format(time.RFC3339)
}

// Pace is the usage of the Rates. A Secret that has to wait has a reserved Slot, so the time
// in its message does not change. It is safe for concurrent use.
type Pace struct {
	rates Rates

	mu         sync.Mutex
	secrets    map[types.NamespacedName]time.Time // when the limit is full again
	namespaces *limit.Keyed[string]
	slots      map[types.NamespacedName]Slot // reserved and not used
	sweepAt    int                           // len(secrets) at which the next sweep runs
}

// New returns an unused Pace.
func New(rates Rates) *Pace {
	return &Pace{
		rates:      rates,
		secrets:    map[types.NamespacedName]time.Time{},
		namespaces: limit.NewKeyed[string](rates.Namespace),
		slots:      map[types.NamespacedName]Slot{},
		sweepAt:    limit.MinSweep,
	}
}

// Slot returns the reserved Slot of the Secret, or of the request.
func (p *Pace) Slot(key types.NamespacedName) Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slots[key]
}

// Reserve takes the tokens for the Secret's next certificate, unless it has them already: a
// token of the Secret, and the given number of tokens of its namespace.
func (p *Pace) Reserve(key types.NamespacedName, tokens int, now time.Time) Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(now)
	slot := p.slots[key]
	if slot.Secret.IsZero() {
		slot.Secret, p.secrets[key] = p.rates.Secret.Take(p.secrets[key], now, 1)
	}
	if tokens > 0 && slot.Namespace.IsZero() {
		slot.Namespace = p.namespaces.Take(key.Namespace, limit.Latest(now, slot.Secret), tokens)
	}
	p.slots[key] = slot
	return slot
}

// Use releases the Slot of the Secret, or of the request, once it is used or no longer needed.
func (p *Pace) Use(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slots, key)
}

// sweep deletes entries whose limit is full again. It runs when their number has doubled, so that
// its cost per entry is bounded.
func (p *Pace) sweep(now time.Time) {
	p.namespaces.Sweep(now)
	if len(p.secrets) < p.sweepAt {
		return
	}
	for key, full := range p.secrets {
		if slot := p.slots[key]; !full.After(now) && !slot.Namespace.After(now) {
			delete(p.secrets, key)
			delete(p.slots, key)
		}
	}
	p.sweepAt = max(limit.MinSweep, 2*len(p.secrets))
}
