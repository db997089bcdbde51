package trust

import (
	"maps"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// clockSkew is how much the clock of this process and the API server's, which sets
// creation times, may differ.
const clockSkew = 2 * time.Minute

// Awaited are the targets of namespaces that a new generation of the CA waits for:
// those that requested the bundle when it was taken up. A request that comes later,
// or comes again after it was withdrawn, does not count: otherwise whoever may write
// ConfigMaps in one namespace could keep a new generation from signing by making new
// targets for ever.
//
// It is what DecideStatus remembers from one call to the next. A new process begins
// with the zero value, and finds out the same from the trust status and from when
// the objects were created.
type Awaited struct {
	hash  string          // of the bundle
	since time.Time       // when it was taken up
	kinds map[string]bool // kinds whose targets were seen since then
	// held has an entry for each target that is awaited: whether it has held the
	// bundle.
	held map[TargetID]bool
}

// next returns what is to be remembered after the situation. Without a bundle it is
// what was remembered before.
func (a Awaited) next(s StatusSituation) Awaited {
	if s.NoBundle != nil {
		return a
	}
	if a.hash != s.Bundle.Hash {
		a = Awaited{hash: s.Bundle.Hash, since: takenUp(s)}
		s.Withdrawn = nil // requests for the bundle before
	}
	next := Awaited{hash: a.hash, since: a.since, kinds: map[string]bool{}, held: map[TargetID]bool{}}
	for _, k := range s.Kinds {
		if k.State == KindWatched {
			next.kinds[k.Name] = true
		}
	}
	for _, t := range s.Targets {
		if t.Key.Namespace == "" || t.Held.State == StateUnsuitable || !next.kinds[t.Kind] {
			continue
		}
		held, awaited := a.held[t.TargetID]
		if !a.kinds[t.Kind] { // all targets of the kind are seen for the first time
			awaited = !t.Created.After(a.since.Add(clockSkew))
		}
		if awaited {
			next.held[t.TargetID] = held || t.Held.State == StateHolds || t.Last.heldHash == a.hash
		}
	}
	for _, id := range s.Withdrawn {
		delete(next.held, id)
	}
	return next
}

// takenUp returns when the bundle was taken up: by the trust status that an earlier
// process wrote, or else now.
func takenUp(s StatusSituation) time.Time {
	if current, err := api.ParseTrustStatus(s.Current); err == nil && current.BundleHash == s.Bundle.Hash &&
		!current.Since.IsZero() && !current.Since.After(s.Now) {
		return current.Since
	}
	return s.Now.UTC().Truncate(time.Second)
}

// weight says how long a target that does not hold the bundle holds up a new
// generation of the CA.
type weight int

const (
	always weight = iota // until it holds the bundle
	grace                // until the signer's grace for refusals is over
	never                // not at all
)

// weigh returns the weight of a target that does not hold the bundle. Only
// administrators write objects of the cluster: those count until they hold it. A
// target of a namespace that has not held the bundle is about to be written: if that
// takes too long, it refuses.
func (a Awaited) weigh(o openTarget) weight {
	if o.Key.Namespace == "" {
		return always
	}
	switch held, awaited := a.held[o.TargetID]; {
	case !awaited:
		return never
	case held, o.State == StateRefuses:
		return grace
	}
	return always
}

// namedNamespaces returns the namespaces as the trust status names them: in order, at
// most api.TrustMaxNamespaces. It says nothing of numbers, which change more often.
func namedNamespaces(targets map[string]int) string {
	return api.Listed(slices.Sorted(maps.Keys(targets)), api.TrustMaxNamespaces)
}
