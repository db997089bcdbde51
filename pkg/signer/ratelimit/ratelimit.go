// Package ratelimit says how often certificates are issued, how often requests that wait are looked at,
// how often it is said that a namespace is not opted in, and who of those that wait comes first.
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
	Secret    limit.Limit // each certificate of one Secret, or of one Share.Subject
	Namespace limit.Limit // those that users of one namespace cause; see signer.Decision and Share
}

// DefaultRates are the rates of a signer that is started without flags.
func DefaultRates() Rates {
	return Rates{Secret: limit.Limit{Burst: 20, Interval: time.Minute}, Namespace: limit.Limit{Burst: 1000, Interval: time.Second}}
}

// Slot is when a Secret, or a request, may have its next certificate. Zero: it has not taken
// the tokens for it, of which there are enough as far as is known.
type Slot struct {
	Secret    time.Time // by Rates.Secret
	Namespace time.Time // by Rates.Namespace
}

// At returns when both limits let the certificate be issued.
func (s Slot) At() time.Time { return limit.Latest(s.Secret, s.Namespace) }

// reached returns the time of the slot, and which limit it is that puts it off. The
// subject is what Rates.Secret limits, and the group what Rates.Namespace does.
func (r Rates) reached(slot Slot, subject, group string) (at time.Time, limit string) {
	if slot.Namespace.After(slot.Secret) {
		return slot.Namespace, fmt.Sprintf("too many certificates were issued: the limit for %s is reached (%s)", group, r.Namespace)
	}
	return slot.Secret, fmt.Sprintf("too many certificates were issued: the limit for %s is reached (%s)", subject, r.Secret)
}

// Next returns when the Secret with the slot may have its next certificate, and a sentence that says
// so, for as long as that time has not come.
func (r Rates) Next(slot Slot) (at time.Time, why string) {
	at, limit := r.reached(slot, "one Secret", oneNamespace)
	return at, fmt.Sprintf("%s; the next one for this Secret is issued at %s", limit, wholeSecond(at))
}

// wholeSecond is the time in RFC 3339, no earlier than it is.
func wholeSecond(at time.Time) string {
	return at.Add(time.Second - 1).Truncate(time.Second).UTC().Format(time.RFC3339)
}

// Pace remembers how much of the Rates was used. A Secret that has to wait has a Slot
// of its own, which nobody else can take: what it says of it stays true. It is safe for
// concurrent use.
type Pace struct {
	rates Rates

	mu         sync.Mutex
	secrets    map[types.NamespacedName]time.Time // when all of the limit is there again
	namespaces *limit.Keyed[string]
	slots      map[types.NamespacedName]Slot // that were not used
	sweepAt    int                           // how many Secrets there are at the next sweep
}

// New returns a Pace of which nothing was used.
func New(rates Rates) *Pace {
	return &Pace{
		rates:      rates,
		secrets:    map[types.NamespacedName]time.Time{},
		namespaces: limit.NewKeyed[string](rates.Namespace),
		slots:      map[types.NamespacedName]Slot{},
		sweepAt:    limit.MinSweep,
	}
}

// Slot returns what the Secret, or the request, has reserved.
func (p *Pace) Slot(key types.NamespacedName) Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slots[key]
}

// Reserve takes what the Secret's next certificate needs and was not taken for it: a
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

// Use says that the Slot of the Secret, or of the request, is used, or will not be.
func (p *Pace) Use(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slots, key)
}

// sweep forgets what makes no difference. It does so rarely enough that each entry is
// looked at a few times.
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
