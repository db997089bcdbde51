package trust

import "time"

// steady is how long a target must hold the bundle before an earlier loss no longer
// counts. A target that another writer keeps changing back never reaches it.
const steady = time.Minute

// Attempt is the result of a write; the zero value if none was made.
type Attempt struct {
	// Wrote: it succeeded.
	Wrote bool
	// Gone: it failed because the object, or its namespace, is deleted or being
	// deleted. The cache is about to show that.
	Gone bool
	// Failure is any other reason why it failed; zero if it did not.
	Failure Evaluation
}

// Report is what to log, and send as an event, about a target.
type Report string

const (
	ReportNothing    Report = ""
	ReportRefused    Report = "refused"    // it refuses this bundle for a reason that was not reported yet
	ReportUnsuitable Report = "unsuitable" // it has no field for the bundle
	ReportLacks      Report = "lacks"      // a part of its request cannot be written
	ReportRestored   Report = "restored"   // the bundle was changed or deleted, and is restored
	ReportWritten    Report = "written"    // the bundle was written; a log line, no event
)

// Outcome is the result of a decision and its write.
type Outcome struct {
	Record Record // to keep
	Report Report
	Retry
}

// Retry is when to decide about a target again.
type Retry struct {
	// Fail: the attempt is an error, and is retried with a backoff.
	Fail bool
	// After is the delay otherwise; 0: when something changes.
	After time.Duration
}

// Conclude returns the outcome of the decision in the situation and the result of its
// write.
func Conclude(s Situation, d Decision, a Attempt) Outcome {
	result := d.Held
	if a.Failure.State != "" {
		result = a.Failure
	}
	o := Outcome{Record: recorded(s, result, a.Wrote), Retry: RetryAfter(d, a)}
	o.Report = report(s.Last, o.Record, d, a)
	return o
}

// RetryAfter returns when to retry after the attempt. An object that was deleted or
// changed meanwhile is not an error: the cache is about to show it.
func RetryAfter(d Decision, a Attempt) Retry {
	switch {
	case a.Gone, a.Failure.Reason == ReasonConflict:
		return Retry{After: minInterval}
	case a.Failure.State != "":
		return Retry{Fail: true}
	}
	return Retry{After: d.After}
}

// report returns what is new about a target.
func report(last, next Record, d Decision, a Attempt) Report {
	switch {
	case next.State == StateRefuses && (last.reported != next.reported || last.hash != next.hash):
		return ReportRefused
	case next.State == StateUnsuitable && last.State != StateUnsuitable:
		return ReportUnsuitable
	case next.lacks != "" && last.lacks != next.lacks:
		return ReportLacks
	case !a.Wrote:
		return ReportNothing
	case d.Write == WhyRestore:
		return ReportRestored
	}
	return ReportWritten
}

// recorded returns the record to keep of the target. result is what was decided, or why
// the write failed.
func recorded(s Situation, result Evaluation, wrote bool) Record {
	next := Record{Evaluation: result, hash: s.Bundle.Hash, heldHash: s.Last.heldHash, wrote: s.Last.wrote, wroteAt: s.Last.wroteAt, lacks: s.Lacks}
	if wrote {
		next.wrote, next.wroteAt = s.Bundle.Hash, s.Now
	}
	same := s.Last.hash == s.Bundle.Hash
	if same {
		next.heldAt, next.openSince, next.reported = s.Last.heldAt, s.Last.openSince, s.Last.reported
	}
	held := same && s.Last.State == StateHolds
	if result.State == StateHolds {
		next.heldHash, next.proof = s.Bundle.Hash, s.Proof
		if !held {
			next.heldAt = s.Now
		}
		return next
	}
	if next.openSince.IsZero() || held && s.Now.Sub(s.Last.heldAt) >= steady {
		next.openSince, next.reported = s.Now, ""
	}
	if result.State == StatePending && s.NoBundle == nil && s.Now.Sub(next.openSince) >= s.Patience {
		next.Evaluation = refusing(result)
	}
	if next.State == StateRefuses {
		next.reported = next.Reason
	}
	return next
}

// refusing returns the evaluation of a target that has been pending for too long.
func refusing(j Evaluation) Evaluation {
	j.State = StateRefuses
	if j.Reason != ReasonUnavailable && j.Reason != ReasonTooManyRequests {
		j.Reason, j.Message = ReasonContested, "it is written repeatedly but does not keep the CA bundle, as if something changed it back: "+j.Message
	}
	return j
}
