package trust

import "time"

// minInterval is the least time between two writes of the same bundle to the
// same target. It bounds what a fight with another writer of the field costs,
// and keeps a cache that has not seen a write yet from leading to a second one.
const minInterval = time.Second

// steady is how long a target must have held the bundle for what was before to be
// forgotten: one that someone changes back each time never gets there.
const steady = time.Minute

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
	// patience is Config.Patience.
	patience time.Duration
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

// recorded returns what is to be remembered of the place, given what it came to
// (what was decided, or what the write failed of) and whether it was written. Pure.
func recorded(g gathered, came Judgement, wrote bool) record {
	next := record{Judgement: came, hash: g.bundle.Hash, heldHash: g.last.heldHash, wrote: g.last.wrote, wroteAt: g.last.wroteAt}
	if wrote {
		next.wrote, next.wroteAt = g.bundle.Hash, g.now
	}
	same := g.last.hash == g.bundle.Hash
	if same {
		next.heldAt, next.openSince, next.told = g.last.heldAt, g.last.openSince, g.last.told
	}
	held := same && g.last.State == StateHolds
	if came.State == StateHolds {
		next.heldHash = g.bundle.Hash
		if !held {
			next.heldAt = g.now
		}
		return next
	}
	if next.openSince.IsZero() || held && g.now.Sub(g.last.heldAt) >= steady {
		next.openSince, next.told = g.now, ""
	}
	if came.State == StatePending && g.source == nil && g.now.Sub(next.openSince) >= g.patience {
		next.Judgement = stuck(came)
	}
	if next.State == StateRefuses {
		next.told = next.Reason
	}
	return next
}

// stuck is what becomes of a target that nothing holds up but what ought to pass,
// and does not.
func stuck(j Judgement) Judgement {
	j.State = StateRefuses
	if j.Reason != ReasonUnavailable && j.Reason != ReasonTooManyRequests {
		j.Reason, j.Message = ReasonContested, "it is written again and again and not seen to hold the bundle, as if something changed it back: "+j.Message
	}
	return j
}
