// Package serviceindex indexes the Services that request a certificate, by the pods that they select
// and the names that they request. It also maps a DNS name to its Service.
package serviceindex

import (
	"cmp"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Index finds the Services that request a certificate, by the pods that they select and by
// the names that are outside of their domains. The cost of a lookup depends on the number of
// results, not on that of Services. It is safe for concurrent use.
type Index struct {
	seed maphash.Seed

	mu     sync.RWMutex
	limits api.Limits
	// places are the Services by one pair of their selector, which few Services share.
	places map[uint64]*listed
	// others are the Services by the OtherNames that they request.
	others map[string]*holders
}

// listed is a Service that requests a certificate.
type listed struct {
	namespace unique.Handle[string]
	name      string
	created   int64 // Unix time
	more      *listedMore
	next      *listed // in the same place
}

// listedMore has the fields that most Services do not need.
type listedMore struct {
	selector []uint64 // the pairs other than that of its place
	nothing  bool     // it selects nothing
	holds    []*holders
	proof    bool // its condition has a proof of the opt-in, which MayHavePodKeys verifies
}

// holders are the Services that request a name, the oldest first.
type holders struct {
	name     string
	services []*listed
}

// New returns an empty Index with the given limits.
func New(limits api.Limits) *Index {
	return &Index{seed: maphash.MakeSeed(), limits: limits, places: map[uint64]*listed{}, others: map[string]*holders{}}
}

// Change updates the Index after a change of a Service; before or after may be nil.
func (x *Index) Change(before, after *corev1.Service) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, svc := range []*corev1.Service{before, after} { // Limit may have read it already
		if svc != nil && api.AsksSigner(svc) {
			x.remove(svc)
		}
	}
	if after != nil && api.AsksSigner(after) {
		x.add(after)
	}
}

// Limit sets the limits. If their former domains change, it indexes all Services again, since
// their OtherNames may differ.
func (x *Index) Limit(limits api.Limits, all iter.Seq[*corev1.Service]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.Equal(x.limits.FormerDomains, limits.FormerDomains) {
		return
	}
	x.limits = limits
	clear(x.places)
	clear(x.others)
	for svc := range all {
		if api.AsksSigner(svc) {
			x.add(svc)
		}
	}
}

func (x *Index) add(svc *corev1.Service) {
	pairs, nothing := x.placesOf(svc)
	l := &listed{namespace: unique.Make(svc.Namespace), name: svc.Name, created: svc.CreationTimestamp.Unix()}
	names := OtherNames(svc, x.limits)
	if nothing || len(pairs) > 1 || len(names) > 0 {
		l.more = &listedMore{selector: pairs[1:], nothing: nothing, proof: state.ReadyOf(svc).Proof != ""}
	}
	l.next, x.places[pairs[0]] = x.places[pairs[0]], l
	for _, name := range names {
		h := x.others[name]
		if h == nil {
			h = &holders{name: name}
			x.others[name] = h
		}
		at, _ := slices.BinarySearchFunc(h.services, l, (*listed).order)
		h.services = slices.Insert(h.services, at, l)
		l.more.holds = append(l.more.holds, h)
	}
}

func (x *Index) remove(svc *corev1.Service) {
	places, _ := x.placesOf(svc)
	place, namespace := places[0], unique.Make(svc.Namespace)
	var last *listed
	for l := x.places[place]; l != nil; last, l = l, l.next {
		if l.name != svc.Name || l.namespace != namespace {
			continue
		}
		switch {
		case last != nil:
			last.next = l.next
		case l.next != nil:
			x.places[place] = l.next
		default:
			delete(x.places, place)
		}
		x.release(l)
		return
	}
}

// release removes a Service from the names that it holds.
func (x *Index) release(l *listed) {
	if l.more == nil {
		return
	}
	for _, h := range l.more.holds {
		if at, there := slices.BinarySearchFunc(h.services, l, (*listed).order); there {
			h.services = slices.Delete(h.services, at, at+1)
		}
		if len(h.services) == 0 {
			delete(x.others, h.name)
		}
	}
}

// placesOf returns the pairs of a Service's selector, and whether it selects nothing.
func (x *Index) placesOf(svc *corev1.Service) (pairs []uint64, nothing bool) {
	if api.CheckSize(svc) != nil {
		return []uint64{x.placeOfTooLarge(svc.Namespace)}, false
	}
	return x.pairs(svc.Namespace, svc.Spec.Selector), len(svc.Spec.Selector) == 0
}

// placeOfTooLarge returns the place of the too large Services of a namespace. It hashes two texts,
// a pair three and an empty selector one, so that they differ.
func (x *Index) placeOfTooLarge(namespace string) uint64 { return x.hash(namespace, "too large") }

func (x *Index) hash(texts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	for _, text := range texts { // no text has a zero byte
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// pairs returns the sorted hashes of the pairs of a selector, or of a pod's labels, in a namespace.
// An empty selector has one hash.
func (x *Index) pairs(namespace string, selector map[string]string) []uint64 {
	pairs := make([]uint64, 0, max(1, len(selector)))
	for key, value := range selector {
		pairs = append(pairs, x.hash(namespace, key, value))
	}
	if len(pairs) == 0 {
		pairs = append(pairs, x.hash(namespace))
	}
	slices.Sort(pairs)
	return pairs
}

// order compares by age, the older first, as api.OlderFirst does within a namespace.
func (l *listed) order(other *listed) int {
	return cmp.Or(cmp.Compare(l.created, other.created), cmp.Compare(l.name, other.name), cmp.Compare(l.namespace.Value(), other.namespace.Value()))
}

func (l *listed) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.namespace.Value(), Name: l.name}
}
