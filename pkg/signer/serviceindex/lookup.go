package serviceindex

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// MaxSelecting is the most Services that Selecting returns: a certificate can contain the names
// of half as many.
const MaxSelecting = api.MaxNames

// Selecting returns the Services that request a certificate and select the pod, the oldest
// first, at most MaxSelecting.
func (x *Index) Selecting(pod *corev1.Pod) []types.NamespacedName {
	if len(pod.Labels) == 0 {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	labels := x.pairs(pod.Namespace, pod.Labels)
	var found []*listed
	for _, label := range labels {
		for l := x.places[label]; l != nil; l = l.next {
			if l.selects(labels) {
				found = append(found, l)
			}
		}
	}
	slices.SortFunc(found, (*listed).order)
	return keysOf(found[:min(len(found), MaxSelecting)])
}

// TooLarge returns the oldest Service of the namespace that requests a certificate and is too
// large to know which pods it selects, if any.
func (x *Index) TooLarge(namespace string) []types.NamespacedName {
	x.mu.RLock()
	defer x.mu.RUnlock()
	oldest := x.places[x.placeOfTooLarge(namespace)]
	if oldest == nil {
		return nil
	}
	for l := oldest.next; l != nil; l = l.next {
		if l.order(oldest) < 0 {
			oldest = l
		}
	}
	return []types.NamespacedName{oldest.key()}
}

// selects reports whether a Service selects a pod with the labels, which include its place.
func (l *listed) selects(labels []uint64) bool {
	if l.more == nil {
		return true
	}
	for _, pair := range l.more.selector {
		if _, has := slices.BinarySearch(labels, pair); !has {
			return false
		}
	}
	return !l.more.nothing
}

func keysOf(services []*listed) (keys []types.NamespacedName) {
	for _, l := range services {
		keys = append(keys, l.key())
	}
	return keys
}

// Holding returns the Services that request a name of OtherNames and may have it, the oldest
// first, at most most of them. may is called with the namespace of a Service and whether its
// condition has a proof of the opt-in.
func (x *Index) Holding(name string, most int, may func(namespace string, proof bool) bool) []types.NamespacedName {
	x.mu.RLock()
	defer x.mu.RUnlock()
	h := x.others[name]
	if h == nil {
		return nil
	}
	var found []*listed
	for _, l := range h.services {
		if len(found) == most {
			break
		}
		if may(l.namespace.Value(), l.more.proof) {
			found = append(found, l)
		}
	}
	return keysOf(found)
}

// OthersIn returns the OtherNames of the Services of a namespace, without duplicates.
func (x *Index) OthersIn(namespace string) (names []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	in := unique.Make(namespace)
	for name, h := range x.others {
		if slices.ContainsFunc(h.services, func(l *listed) bool { return l.namespace == in }) {
			names = append(names, name)
		}
	}
	return names
}
