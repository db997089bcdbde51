package probe

import (
	"slices"
	"time"
)

// Answer is what a port said when it was dialled last.
type Answer struct {
	Port uint16
	Kind Kind
	At   time.Time // when the dial began
	// Since is when the first of the latest dials began that all had this answer.
	Since time.Time

	// Of kind TLS: the leaf's fingerprint and validity, when it is due for renewal,
	// and whether it is one of the Secret, as far as the leaf itself shows
	// (Visit.Answer).
	Leaf                         string
	NotBefore, NotAfter, RenewAt time.Time
	Ours                         bool
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
