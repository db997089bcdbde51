package probe

import (
	"cmp"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// Answer is the latest answer of a port.
type Answer struct {
	Port uint16
	// Protocol is the protocol of the dial.
	Protocol starttls.Protocol
	Kind     Kind
	// Cause is the reason, if Kind alone does not give it.
	Cause Cause
	At    time.Time // when the dial began
	// Slow: the dials of the pod ended with this port, because the port alone, or all ports so far,
	// took the time limit of one port or longer.
	Slow bool
	// Since is when the first of the latest dials with this answer began.
	Since time.Time

	// Of kind TLS: the leaf's fingerprint and validity, when it is due for renewal, and whether it
	// is one of the Secret, as far as the leaf itself shows (Target.Answer).
	Leaf                         string
	NotBefore, NotAfter, RenewAt time.Time
	Ours                         bool
	// Links are those of what was sent with a known leaf of the Secret (pki.Links).
	Links     string
	Handshake Handshake
	// PodKey is the result of the checks of Target.PodKey, or nil.
	PodKey *PodKeyResult
	// Guarding is what the port did to strangers; nil if none was to try, or if there is nothing new (Guard.Leaf).
	Guarding *Guarding
}

// same reports whether two answers are equal.
func (a Answer) same(b Answer) bool { return a.Kind == b.Kind && a.Leaf == b.Leaf }

// Merge returns the latest answer of each port, by port, with the latest Guarding. before is not changed.
func Merge(before, answers []Answer) []Answer {
	out := slices.Clone(before)
	for _, a := range answers {
		a.Since = a.At
		i, found := slices.BinarySearchFunc(out, a.Port, func(b Answer, port uint16) int { return int(b.Port) - int(port) })
		if !found {
			out = slices.Insert(out, i, a)
			continue
		}
		if out[i].same(a) {
			a.Since = out[i].Since
		}
		a.Guarding = out[i].Guarding.follow(a.Guarding)
		out[i] = a
	}
	return out
}

// Order returns the ports in the order of their dials: first those that have answered, the least
// recently dialled one first; then new ones, by number; finally those that timed out. The dials of
// a pod end at the first port that times out, so this order keeps such a port from blocking others.
// answers are the latest of each port.
func Order(ports []uint16, answers []Answer) []uint16 {
	type place struct {
		class int
		at    time.Time
	}
	places := make(map[uint16]place, len(ports))
	for _, port := range ports {
		places[port] = place{class: 1}
	}
	for _, a := range answers {
		class := 0
		if a.Slow {
			class = 2
		}
		places[a.Port] = place{class, a.At}
	}
	return slices.SortedFunc(slices.Values(ports), func(a, b uint16) int {
		return cmp.Or(cmp.Compare(places[a].class, places[b].class), places[a].at.Compare(places[b].at), cmp.Compare(a, b))
	})
}

// Latest returns the latest answers, at most the given number, by port. answers is not changed.
func Latest(answers []Answer, most int) []Answer {
	if len(answers) <= most {
		return answers
	}
	out := slices.SortedFunc(slices.Values(answers), func(a, b Answer) int { return b.At.Compare(a.At) })[:most]
	slices.SortFunc(out, func(a, b Answer) int { return cmp.Compare(a.Port, b.Port) })
	return out
}
