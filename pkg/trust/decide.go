package trust

import "time"

// minInterval is the shortest time between two writes of the same bundle to the same
// target. It bounds the cost of another writer who changes the field back, and prevents
// a second write before the cache shows the first.
const minInterval = time.Second

// Situation is the input of Decide: an object that is, or was, a target.
type Situation struct {
	Now       time.Time
	Bundle    Bundle
	NoBundle  error // why there is no bundle, or nil
	Requested bool  // something requests that the object hold the bundle
	Exists    bool  // the object exists
	Owned     bool  // FieldManager owns the field
	// Release: fields of this kind must not stay owned.
	Release bool
	Held    Evaluation // whether the object holds the bundle; zero without a bundle
	Proof   string     // see Proof
	Lacks   string     // which part of the request cannot be followed, for people
	Last    Record     // zero if there is none
	// Patience is how long the target may be pending before it counts as refusing the
	// bundle.
	Patience time.Duration
}

// Why is the reason for a write. Its values are those of the metric's label why.
type Why string

const (
	WhyCreate  Why = "create"  // the object did not exist
	WhyUpdate  Why = "update"  // it held another bundle, or none
	WhyRestore Why = "restore" // it held this bundle, and someone changed or deleted it
)

// Whys lists all, in the order of the documentation.
func Whys() []Why { return []Why{WhyCreate, WhyUpdate, WhyRestore} }

// Decision is what to do about a target, and why.
type Decision struct {
	Forget  bool       // nothing requests the bundle here
	Release bool       // give up the ownership of the field, and leave its value
	Held    Evaluation // to record
	Write   Why        // "" for no write
	After   time.Duration
}

// Decide returns what to do. The first rule that applies decides.
func Decide(s Situation) Decision {
	switch {
	case !s.Requested:
		return Decision{Forget: true, Release: s.Owned}
	case s.NoBundle != nil:
		return Decision{Held: Evaluation{StatePending, ReasonNoSource, s.NoBundle.Error()}}
	case s.Held.State == StateHolds:
		return Decision{Held: Holds(), Release: s.Owned && s.Release, After: s.Bundle.changesIn(s.Now)}
	case s.Held.State != StatePending:
		return Decision{Held: s.Held, After: s.Bundle.changesIn(s.Now)}
	}
	// A write that changes nothing, since an admission policy takes it back at once, causes no event.
	d := Decision{Held: s.Held, Write: why(s), After: s.Patience}
	if rest := minInterval - s.Now.Sub(s.Last.wroteAt); s.Last.wrote == s.Bundle.Hash && rest > 0 {
		d.Write, d.After = "", rest
	}
	return d
}

func why(s Situation) Why {
	switch {
	case s.Last.heldHash == s.Bundle.Hash:
		return WhyRestore
	case !s.Exists:
		return WhyCreate
	}
	return WhyUpdate
}
