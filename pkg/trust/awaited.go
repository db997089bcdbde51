package trust

import (
	"maps"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// clockSkew is the allowed difference between the clock of this process and that of the
// API server, which sets creation times.
const clockSkew = 2 * time.Minute

// Awaited are the targets of namespaces that a new generation of the CA waits for:
// those that requested the bundle when it was first observed. Later requests, and
// requests that were withdrawn and repeated, do not count: otherwise anyone who may
// write ConfigMaps in one namespace could keep a new generation from signing by
// creating new targets.
//
// It is the state that DecideStatus keeps from one call to the next. A new process
// starts with the zero value and restores it from the trust status and the creation
// times of the objects.
type Awaited struct {
	hash  string          // of the bundle
	since time.Time       // when it was first observed
	kinds map[string]bool // kinds whose targets were seen since then
	// held has an entry for each awaited target: whether it has held the bundle.
	held map[TargetID]bool
}

// next returns the state after the situation; without a bundle it is unchanged.
func (a Awaited) next(s StatusSituation) Awaited {
	if s.NoBundle != nil {
		return a
	}
	if a.hash != s.Bundle.Hash {
		a = Awaited{hash: s.Bundle.Hash, since: takenUp(s)}
		s.Withdrawn = nil // requests for the previous bundle
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

// takenUp returns when the bundle was first observed: the time in the trust status that
// an earlier process wrote, or now.
func takenUp(s StatusSituation) time.Time {
	if current, err := api.ParseTrustStatus(s.Current); err == nil && current.BundleHash == s.Bundle.Hash &&
		!current.Since.IsZero() && !current.Since.After(s.Now) {
		return current.Since
	}
	return s.Now.UTC().Truncate(time.Second)
}

// weight is how long a target that does not hold the bundle delays a new generation of
// the CA.
type weight int

const (
	always weight = iota // until it holds the bundle
	grace                // until the signer's grace for refusals is over
	never                // not at all
)

// weigh returns the weight of a target that does not hold the bundle. Cluster-scoped
// objects, which only administrators write, count until they hold it. A target in a
// namespace that has never held the bundle is about to be written: if that takes too
// long, it refuses.
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

// namedNamespaces returns the namespaces for the trust status: sorted, at most
// api.TrustMaxNamespaces, without the counts, which change more often.
func namedNamespaces(targets map[string]int) string {
	return api.Listed(slices.Sorted(maps.Keys(targets)), api.TrustMaxNamespaces)
}
