// Package serviceindex finds the Services that requests for certificates concern, without asking each
// Service. It also tells to which Service a DNS name belongs.
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

// Directory finds the Services that ask for a certificate by what a request for one names: a
// pod that they select, and names that do not say of which Service they are. What it finds for
// a request costs what was found, and not what there is. It is safe for concurrent use.
type Directory struct {
	seed maphash.Seed

	mu     sync.RWMutex
	limits api.Limits
	// places are the Services that ask, by one pair of their selector: most are alone there.
	places map[uint64]*listed
	// others are the names and addresses that do not say whose they are.
	others map[string]*holders
}

// listed is a Service that asks for a certificate.
type listed struct {
	namespace unique.Handle[string]
	name      string
	created   int64 // Unix time
	more      *listedMore
	next      *listed // in the same place
}

// listedMore is what most Services do not have.
type listedMore struct {
	selector []uint64 // the pairs beside that of its place
	nothing  bool     // it selects nothing
	holds    []*holders
	proof    bool // its condition has a proof of the opt-in, which MayHavePodKeys verifies
}

// holders are the Services that ask for a name, the oldest first.
type holders struct {
	name     string
	services []*listed
}

// New returns a Directory of no Services, under the given limits.
func New(limits api.Limits) *Directory {
	return &Directory{seed: maphash.MakeSeed(), limits: limits, places: map[uint64]*listed{}, others: map[string]*holders{}}
}

// Change brings the Directory from a Service as it was to the Service as it is; either may be
// nil.
func (d *Directory) Change(before, after *corev1.Service) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, svc := range []*corev1.Service{before, after} { // Limit may have read it already
		if svc != nil && api.Asks(svc) {
			d.remove(svc)
		}
	}
	if after != nil && api.Asks(after) {
		d.add(after)
	}
}

// Limit makes the former domains of the limits those by which names count. If they are others
// than before, all Services are read once more: they may ask for other names.
func (d *Directory) Limit(limits api.Limits, all iter.Seq[*corev1.Service]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(d.limits.FormerDomains, limits.FormerDomains) {
		return
	}
	d.limits = limits
	clear(d.places)
	clear(d.others)
	for svc := range all {
		if api.Asks(svc) {
			d.add(svc)
		}
	}
}

func (d *Directory) add(svc *corev1.Service) {
	pairs, nothing := d.placesOf(svc)
	l := &listed{namespace: unique.Make(svc.Namespace), name: svc.Name, created: svc.CreationTimestamp.Unix()}
	names := OtherNames(svc, d.limits)
	if nothing || len(pairs) > 1 || len(names) > 0 {
		l.more = &listedMore{selector: pairs[1:], nothing: nothing, proof: state.ReadyOf(svc).Proof != ""}
	}
	l.next, d.places[pairs[0]] = d.places[pairs[0]], l
	for _, name := range names {
		h := d.others[name]
		if h == nil {
			h = &holders{name: name}
			d.others[name] = h
		}
		at, _ := slices.BinarySearchFunc(h.services, l, (*listed).order)
		h.services = slices.Insert(h.services, at, l)
		l.more.holds = append(l.more.holds, h)
	}
}

func (d *Directory) remove(svc *corev1.Service) {
	places, _ := d.placesOf(svc)
	place, namespace := places[0], unique.Make(svc.Namespace)
	var last *listed
	for l := d.places[place]; l != nil; last, l = l, l.next {
		if l.name != svc.Name || l.namespace != namespace {
			continue
		}
		switch {
		case last != nil:
			last.next = l.next
		case l.next != nil:
			d.places[place] = l.next
		default:
			delete(d.places, place)
		}
		d.release(l)
		return
	}
}

// release takes a Service from the names that it holds.
func (d *Directory) release(l *listed) {
	if l.more == nil {
		return
	}
	for _, h := range l.more.holds {
		if at, there := slices.BinarySearchFunc(h.services, l, (*listed).order); there {
			h.services = slices.Delete(h.services, at, at+1)
		}
		if len(h.services) == 0 {
			delete(d.others, h.name)
		}
	}
}

// placesOf returns the pairs by which a Service is listed, and whether it selects nothing.
func (d *Directory) placesOf(svc *corev1.Service) (pairs []uint64, nothing bool) {
	if api.CheckSize(svc) != nil {
		return []uint64{d.placeOfTooLarge(svc.Namespace)}, false
	}
	return d.pairs(svc.Namespace, svc.Spec.Selector), len(svc.Spec.Selector) == 0
}

// placeOfTooLarge returns where the Services of a namespace that are too large are listed. It is
// a hash of two texts: that of a pair has three, and that of an empty selector one.
func (d *Directory) placeOfTooLarge(namespace string) uint64 { return d.hash(namespace, "too large") }

func (d *Directory) hash(texts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(d.seed)
	for _, text := range texts { // no text has a zero byte
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// pairs returns the pairs of a selector, or of a pod's labels, in a namespace, each as a number,
// in order. There is one for a selector without a pair.
func (d *Directory) pairs(namespace string, selector map[string]string) []uint64 {
	pairs := make([]uint64, 0, max(1, len(selector)))
	for key, value := range selector {
		pairs = append(pairs, d.hash(namespace, key, value))
	}
	if len(pairs) == 0 {
		pairs = append(pairs, d.hash(namespace))
	}
	slices.Sort(pairs)
	return pairs
}

// order puts the older first, as api.OlderFirst does in a namespace.
func (l *listed) order(other *listed) int {
	return cmp.Or(cmp.Compare(l.created, other.created), cmp.Compare(l.name, other.name), cmp.Compare(l.namespace.Value(), other.namespace.Value()))
}

func (l *listed) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.namespace.Value(), Name: l.name}
}
