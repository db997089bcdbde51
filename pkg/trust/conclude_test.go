package trust

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// look is one look at a target.
type look struct {
	after time.Duration // since the look before
	came  Evaluation
	wrote bool
	hash  string // "new" unless said otherwise
}

// watchedBy returns the records after each look.
func watchedBy(looks ...look) []Record {
	var records []Record
	s := Situation{Now: noon, Patience: 5 * time.Minute}
	for _, l := range looks {
		s.Now = s.Now.Add(l.after)
		s.Bundle = Bundle{Hash: "new"}
		if l.hash != "" {
			s.Bundle.Hash = l.hash
		}
		s.Last = recorded(s, l.came, l.wrote)
		records = append(records, s.Last)
	}
	return records
}

func TestPatience(t *testing.T) {
	var (
		off     = Differs("something else")
		away    = Evaluation{StatePending, ReasonUnavailable, "no answer"}
		changed = Evaluation{StatePending, ReasonConflict, "changed meanwhile"}
		refused = Evaluation{StateRefuses, ReasonForbidden, "no rights"}
		second  = time.Second
	)
	fight := func(times int, gap time.Duration) (looks []look) {
		for range times {
			looks = append(looks, look{gap, off, true, ""}, look{second, Holds(), false, ""})
		}
		return looks
	}
	tests := []struct {
		name   string
		looks  []look
		state  State
		reason Reason
	}{
		{"new", []look{{0, off, true, ""}}, StatePending, ReasonDiffers},
		{"no answer, for a while", []look{{0, away, false, ""}, {4 * time.Minute, away, false, ""}}, StatePending, ReasonUnavailable},
		{"no answer, too long", []look{{0, away, false, ""}, {4 * time.Minute, away, false, ""}, {time.Minute, away, false, ""}}, StateRefuses, ReasonUnavailable},
		{"an answer at last", []look{{0, away, false, ""}, {6 * time.Minute, away, false, ""}, {second, Holds(), false, ""}}, StateHolds, ""},
		{"no answer to another bundle", []look{{0, away, false, ""}, {4 * time.Minute, away, false, ""}, {time.Minute, away, false, "newer"}}, StatePending, ReasonUnavailable},
		{"changed meanwhile, each time", []look{{0, changed, false, ""}, {5 * time.Minute, changed, false, ""}}, StateRefuses, ReasonContested},
		{"changed back, for a while", append(fight(100, 2*second), look{second, off, true, ""}), StatePending, ReasonDiffers},
		{"changed back, too often", append(fight(100, 2*second+second), look{second, off, true, ""}), StateRefuses, ReasonContested},
		{"changed back, and left alone", fight(200, 2*second), StateHolds, ""},
		{"changed back once in a while", append(fight(50, time.Hour), look{second, off, true, ""}), StatePending, ReasonDiffers},
		{"steady, however often it was looked at", []look{{0, away, false, ""}, {6 * time.Minute, off, true, ""}, {second, Holds(), false, ""},
			{30 * second, Holds(), false, ""}, {30 * second, Holds(), false, ""}, {30 * second, off, true, ""}}, StatePending, ReasonDiffers},
		{"refused at once", []look{{0, refused, false, ""}}, StateRefuses, ReasonForbidden},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			records := watchedBy(tt.looks...)
			last := records[len(records)-1]
			assert.Equal(t, tt.state, last.State, last)
			assert.Equal(t, tt.reason, last.Reason)
		})
	}
	t.Run("without a source nobody is to blame", func(t *testing.T) {
		s := Situation{Now: noon, NoBundle: errors.New("none"), Patience: time.Minute}
		s.Last = recorded(s, Evaluation{StatePending, ReasonNoSource, "none"}, false)
		s.Now = noon.Add(time.Hour)
		assert.Equal(t, StatePending, recorded(s, Evaluation{StatePending, ReasonNoSource, "none"}, false).State)
	})
}

// Whatever happens to a target: a temporary fault does not count as a refusal before
// patience has run out, a target that never holds the bundle steadily refuses in the end,
// and one that holds it always counts as holding.
func TestPatienceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		came := rapid.SampledFrom([]Evaluation{Differs("x"), {StatePending, ReasonUnavailable, "x"}, Holds()})
		var looks []look
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			after := time.Duration(rapid.IntRange(0, 59).Draw(t, "seconds")) * time.Second
			looks = append(looks, look{after, came.Draw(t, "came"), rapid.Bool().Draw(t, "wrote"), ""})
		}
		open, at := time.Time{}, noon
		for i, r := range watchedBy(looks...) {
			at = at.Add(looks[i].after)
			if looks[i].came.State == StateHolds {
				assert.Equal(t, StateHolds, r.State)
				continue
			}
			if open.IsZero() {
				open = at
			}
			if at.Sub(open) < 5*time.Minute {
				assert.Equal(t, StatePending, r.State)
			}
			if steadily := longestHeld(looks[:i+1]) >= steady; !steadily {
				assert.Equal(t, at.Sub(open) >= 5*time.Minute, r.State == StateRefuses)
			}
		}
	})
}

// longestHeld is the longest time between the first look of a run that found the
// bundle and the look that ended it.
func longestHeld(looks []look) time.Duration {
	var longest, run time.Duration
	held := false
	for _, l := range looks {
		if held {
			run += l.after
			longest = max(longest, run)
		}
		if held = l.came.State == StateHolds; !held {
			run = 0
		}
	}
	return longest
}

// An object that was deleted or changed meanwhile is not a failure: no error, no backoff.
func TestRetryAfter(t *testing.T) {
	d := Decision{After: time.Hour}
	tests := map[string]struct {
		attempt Attempt
		want    Retry
	}{
		"none":     {Attempt{}, Retry{After: time.Hour}},
		"written":  {Attempt{Wrote: true}, Retry{After: time.Hour}},
		"gone":     {Attempt{Gone: true}, Retry{After: minInterval}},
		"changed":  {Attempt{Failure: Evaluation{StatePending, ReasonConflict, "x"}}, Retry{After: minInterval}},
		"refused":  {Attempt{Failure: Evaluation{StateRefuses, ReasonForbidden, "x"}}, Retry{Fail: true}},
		"no reply": {Attempt{Failure: Evaluation{StatePending, ReasonUnavailable, "x"}}, Retry{Fail: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, RetryAfter(d, tt.attempt)) })
	}
}

// The part of a request that cannot be followed is reported when it changes.
func TestConcludeReportsWhatIsLacking(t *testing.T) {
	s := Situation{Now: noon, Bundle: Bundle{Hash: "a"}, Patience: time.Minute}
	for i, step := range []struct {
		lacks string
		want  Report
	}{{"", ReportNothing}, {"x", ReportLacks}, {"x", ReportNothing}, {"y", ReportLacks}, {"", ReportNothing}} {
		s.Lacks = step.lacks
		o := Conclude(s, Decision{Held: Holds()}, Attempt{})
		assert.Equal(t, step.want, o.Report, "step %d", i)
		s.Last = o.Record
	}
}

// The last write and its time are kept until the next write.
func TestConcludeRemembersWhatWasWritten(t *testing.T) {
	s := Situation{Now: noon, Bundle: Bundle{Hash: "a"}, Patience: time.Minute}
	update := Decision{Held: Differs("x"), Write: WhyUpdate}
	o := Conclude(s, update, Attempt{Failure: Evaluation{StateRefuses, ReasonForbidden, "x"}})
	assert.Empty(t, o.Record.wrote)
	s.Last = Conclude(s, update, Attempt{Wrote: true}).Record
	assert.Equal(t, "a", s.Last.wrote)
	s.Now, s.Bundle.Hash = noon.Add(time.Hour), "b"
	o = Conclude(s, Decision{Held: Differs("x")}, Attempt{})
	assert.Equal(t, "a", o.Record.wrote)
	assert.Equal(t, noon, o.Record.wroteAt)
}

// Each fact is reported once.
func TestConcludeReports(t *testing.T) {
	var (
		refused    = Attempt{Failure: Evaluation{StateRefuses, ReasonForbidden, "no rights"}}
		invalid    = Attempt{Failure: Evaluation{StateRefuses, ReasonInvalid, "a policy"}}
		away       = Attempt{Failure: Evaluation{StatePending, ReasonUnavailable, "no answer"}}
		unsuitable = Decision{Held: NoField("none")}
		update     = Decision{Held: Differs("x"), Write: WhyUpdate}
		restore    = Decision{Held: Differs("x"), Write: WhyRestore}
		waiting    = Decision{Held: Differs("x")}
	)
	type step struct {
		hash    string
		d       Decision
		attempt Attempt
		want    Report
	}
	tests := map[string][]step{
		"written":              {{"a", update, Attempt{Wrote: true}, ReportWritten}, {"a", waiting, Attempt{}, ReportNothing}},
		"restored":             {{"a", restore, Attempt{Wrote: true}, ReportRestored}},
		"gone":                 {{"a", update, Attempt{Gone: true}, ReportNothing}},
		"no answer":            {{"a", update, away, ReportNothing}},
		"refused":              {{"a", update, refused, ReportRefused}, {"a", update, refused, ReportNothing}},
		"refused, two reasons": {{"a", update, refused, ReportRefused}, {"a", update, invalid, ReportRefused}},
		"refused, two bundles": {{"a", update, refused, ReportRefused}, {"b", update, refused, ReportRefused}},
		"unsuitable":           {{"a", unsuitable, Attempt{}, ReportUnsuitable}, {"a", unsuitable, Attempt{}, ReportNothing}, {"b", unsuitable, Attempt{}, ReportNothing}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			var last Record
			for i, step := range steps {
				o := Conclude(Situation{Now: noon, Bundle: Bundle{Hash: step.hash}, Patience: time.Minute, Last: last}, step.d, step.attempt)
				assert.Equal(t, step.want, o.Report, "step %d", i)
				last = o.Record
			}
		})
	}
}
