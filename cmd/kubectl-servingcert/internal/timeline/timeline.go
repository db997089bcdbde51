// Package timeline shows the generations of the CA and the certificates of Services on
// one axis of time. It is pure: [Build] makes a [Timeline] of what the cluster says, which is
// also what -o json prints, and [Timeline.Text] draws it.
package timeline

import (
	"cmp"
	"slices"
	"time"
)

// Timeline is what is drawn. Times are in whole seconds, UTC, and texts are escaped
// (api.Escape).
type Timeline struct {
	Now time.Time `json:"now"`
	// From and Until are the ends of the axis; what a lane has beyond them is not drawn.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Lanes []Lane    `json:"lanes"`
	// Missing says what could not be shown, and why.
	Missing []string `json:"missing,omitempty"`
}

// Lane is one row.
type Lane struct {
	Kind  LaneKind `json:"kind"`
	Name  string   `json:"name"`             // "generation 2", or a Service: NAMESPACE/NAME
	About string   `json:"about,omitempty"`  // the rest of what is known, for people
	Spans []Span   `json:"spans,omitempty"`  // they do not overlap, earliest first
	Marks []Mark   `json:"events,omitempty"` // earliest first
}

// LaneKind is what a lane is about.
type LaneKind string

// The kinds of lanes.
const (
	Generation  LaneKind = "generation"
	Certificate LaneKind = "certificate"
)

// Span is a stretch of time.
type Span struct {
	Kind  SpanKind  `json:"kind"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// SpanKind is what a generation or a certificate does for some time.
type SpanKind string

// The kinds of spans: of a generation, and then of a certificate.
const (
	Prepared SpanKind = "prepared" // its root is published, and not known to be held by every target
	Trusted  SpanKind = "trusted"  // every target holds its root, and it does not sign yet
	Signs    SpanKind = "signs"    // up to now, or to the next generation
	MaySign  SpanKind = "maySign"  // from now to its end
	Used     SpanKind = "used"     // another signs; certificates that it signed may be in use
	Kept     SpanKind = "kept"     // none is, and its root is still published

	Valid   SpanKind = "valid"      // issued, and not to be renewed yet
	Renewal SpanKind = "renewalDue" // to be renewed, until it ends
)

// Mark is a moment.
type Mark struct {
	Kind MarkKind  `json:"kind"`
	At   time.Time `json:"at"`
}

// MarkKind is what happened, or will.
type MarkKind string

// The kinds of marks: of a generation, and then of a certificate.
const (
	WasPrepared MarkKind = "prepared"
	WasTrusted  MarkKind = "trusted"
	WasPromoted MarkKind = "signs"
	UsedLast    MarkKind = "usedUntil"
	WasRetired  MarkKind = "retired"
	Expires     MarkKind = "expires"

	ValidFrom  MarkKind = "validFrom"
	WasStored  MarkKind = "inSecret"
	WasServed  MarkKind = "served"
	RenewalDue MarkKind = "renewalDue"
)

// words are the marks in the lists for people.
var words = map[MarkKind]string{
	WasPrepared: "prepared: its root is published",
	WasTrusted:  "trusted: every target holds its root",
	WasPromoted: "signs from here on",
	UsedLast:    "no certificate that it signed lives longer",
	WasRetired:  "retired: its root is no longer published",
	Expires:     "expires",
	ValidFrom:   "valid from: a few minutes before it was issued",
	WasStored:   "in the Secret",
	WasServed:   "served by every pod since then",
	RenewalDue:  "renewal is due",
}

// drawn reports whether the mark is drawn on its lane: those that no span ends at.
func (k MarkKind) drawn() bool { return k == WasStored || k == WasServed }

// add adds a span that is not empty.
func (l *Lane) add(kind SpanKind, from, until time.Time) {
	if !from.IsZero() && until.After(from) {
		l.Spans = append(l.Spans, Span{kind, from, until})
	}
}

// mark adds a moment that is known.
func (l *Lane) mark(kind MarkKind, at time.Time) {
	if !at.IsZero() {
		l.Marks = append(l.Marks, Mark{kind, at.UTC().Truncate(time.Second)})
	}
}

func (l *Lane) sort() {
	slices.SortStableFunc(l.Marks, func(a, b Mark) int { return cmp.Compare(a.At.Unix(), b.At.Unix()) })
}

// ends returns the first and the last moment of the lane; ok is false if it has none.
func (l Lane) ends() (from, until time.Time, ok bool) {
	widen := func(at time.Time) {
		if !ok || at.Before(from) {
			from = at
		}
		if !ok || at.After(until) {
			until = at
		}
		ok = true
	}
	for _, s := range l.Spans {
		widen(s.From)
		widen(s.Until)
	}
	for _, m := range l.Marks {
		widen(m.At)
	}
	return from, until, ok
}

// within reports whether anything of the lane is on the axis.
func (l Lane) within(from, until time.Time) bool {
	first, last, ok := l.ends()
	return ok && !first.After(until) && !last.Before(from)
}
