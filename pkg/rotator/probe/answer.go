package probe

import (
	"cmp"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// Answer is what a port said when it was dialled last.
type Answer struct {
	Port uint16
	// Protocol is that in which the port was asked.
	Protocol starttls.Protocol
	Kind     Kind
	// Cause is why, if Kind alone does not say it.
	Cause Cause
	At    time.Time // when the dial began
	// Slow: the visit ended with this port, because the port, or all ports of the visit
	// so far, took the time limit of one port or longer.
	Slow bool
	// Since is when the first of the latest dials began that all had this answer.
	Since time.Time

	// Of kind TLS: the leaf's fingerprint and validity, when it is due for renewal,
	// and whether it is one of the Secret, as far as the leaf itself shows
	// (Visit.Answer).
	Leaf                         string
	NotBefore, NotAfter, RenewAt time.Time
	Ours                         bool
	Handshake                    Handshake
	// PodKey is what else was asked; nil if nothing was (Visit.PodKey).
	PodKey *PodKeyJudgement
}

// same reports whether two dials had the same answer.
func (a Answer) same(b Answer) bool { return a.Kind == b.Kind && a.Leaf == b.Leaf }

// Merge returns the latest answer of each port, by port. before is not changed.
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
		out[i] = a
	}
	return out
}

// Order returns the ports in the order in which they are dialled: first those that have
// answered, the one that was dialled longest ago first; then those that were not
// dialled yet, by number; at last those that took too long. A visit ends with the first
// port that takes too long, so that a port that gives no answer keeps no other port
// from being dialled. answers are the latest of each port.
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

// Latest returns the most answers that were got last, by port. answers is not changed.
func Latest(answers []Answer, most int) []Answer {
	if len(answers) <= most {
		return answers
	}
	out := slices.SortedFunc(slices.Values(answers), func(a, b Answer) int { return b.At.Compare(a.At) })[:most]
	slices.SortFunc(out, func(a, b Answer) int { return cmp.Compare(a.Port, b.Port) })
	return out
}
