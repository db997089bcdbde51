package trust

import "time"

// minInterval is the least time between two writes of the same bundle to the
// same target. It bounds what a fight with another writer of the field costs,
// and keeps a cache that has not seen a write yet from leading to a second one.
const minInterval = time.Second

// gathered is all that decide looks at.
type gathered struct {
	now     time.Time
	bundle  Bundle
	source  error // why there is no bundle, or nil
	asked   bool  // something asks for the bundle at this place
	exists  bool  // the object is there
	owned   bool  // FieldManager owns the field
	release bool  // the kind's fields are not to be owned (Target.Release)
	held    Judgement
	last    record // what was known before; zero if nothing
}

// Why says what a write is for. Its values are those of the metric's label why.
type Why string

const (
	WhyCreate  Why = "create"  // the object did not exist
	WhyUpdate  Why = "update"  // it held another bundle, or none
	WhyRestore Why = "restore" // it held this bundle, and someone changed or deleted it
)

// Whys lists all, in the order of the documentation.
func Whys() []Why { return []Why{WhyCreate, WhyUpdate, WhyRestore} }

// decision is what is to be done about a place, and why.
type decision struct {
	forget  bool      // nothing asks for the bundle here
	release bool      // give up the ownership of the field, and leave it
	held    Judgement // to be recorded
	write   Why       // "" for no write
	after   time.Duration
}

// decide is pure. The first rule that applies decides.
func decide(g gathered) decision {
	switch {
	case !g.asked:
		return decision{forget: true, release: g.owned}
	case g.source != nil:
		return decision{held: Judgement{StatePending, ReasonNoSource, g.source.Error()}}
	case g.held.State == StateHolds:
		return decision{held: holds(), release: g.owned && g.release, after: untilExpired(g)}
	case g.held.State != StatePending:
		return decision{held: g.held, after: untilExpired(g)}
	}
	d := decision{held: g.held, write: why(g)}
	if rest := minInterval - g.now.Sub(g.last.wroteAt); g.last.wrote == g.bundle.Hash && rest > 0 {
		d.write, d.after = "", rest
	}
	return d
}

// untilExpired is when the bundle becomes another one by itself; a second more,
// as a certificate is valid up to and including its NotAfter.
func untilExpired(g gathered) time.Duration { return g.bundle.Until.Sub(g.now) + time.Second }

func why(g gathered) Why {
	switch {
	case g.last.heldHash == g.bundle.Hash:
		return WhyRestore
	case !g.exists:
		return WhyCreate
	}
	return WhyUpdate
}
