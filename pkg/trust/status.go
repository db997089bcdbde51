package trust

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// startGrace is how long a new leader waits for its caches before it writes the trust
// status: earlier it would only withdraw, and then repeat, what the last leader wrote.
const startGrace = 10 * time.Second

// A decision about the trust status reads every target. If it were made every second while
// targets change, its cost would grow with the square of their number, since more targets take
// longer to change. So the delay grows by one unit for every targetsPerDelay targets, up to
// maxDelays: the signer, which reads the status, waits for minutes anyway.
const (
	targetsPerDelay = 2000
	maxDelays       = 10
)

// StatusDelay returns how long changes are batched before the trust status is decided again;
// least is the delay for few targets.
func StatusDelay(least time.Duration, targets int) time.Duration {
	return least * time.Duration(min(1+targets/targetsPerDelay, maxDelays))
}

// StatusSituation is the input of DecideStatus.
type StatusSituation struct {
	Now      time.Time
	Started  time.Time // when this process first decided
	Kinds    []KindStatus
	Bundle   Bundle
	NoBundle error // why there is no bundle, or nil
	Targets  []SeenTarget
	Current  map[string]string // the data of the trust status; nil if there is none
	Reported string            // the problem of the source that was last reported
	Awaited  Awaited           // from the last decision; zero if there was none
	// Withdrawn are targets whose request was withdrawn since the last decision. Some may
	// request the bundle again.
	Withdrawn []TargetID
}

// SeenTarget is a target from the caches.
type SeenTarget struct {
	TargetID
	// Created is when the object, or the namespace if that is what requests the bundle, was
	// created.
	Created time.Time
	Held    Evaluation // zero without a bundle
	Last    Record     // of the last attempt to write it; zero if there was none
}

// evaluation returns the evaluation from the cache, or, for a target that does not hold this
// bundle, why the last write failed.
func (t SeenTarget) evaluation(bundleHash string) Evaluation {
	switch {
	case t.Held.State == "":
		return Evaluation{StatePending, ReasonNoSource, "there is no CA bundle to compare with"}
	case t.Held.State == StatePending && t.Last.hash == bundleHash && t.Last.State == StateRefuses:
		return t.Last.Evaluation
	}
	return t.Held
}

// StatusDecision is what to do about the trust status.
type StatusDecision struct {
	// Wait: do nothing yet, and decide again after After.
	Wait    bool
	Summary Summary
	Awaited Awaited // for the next decision
	// Report: the problem of the source has changed since it was last reported.
	Report bool
	// Write is the data to write; nil for no write.
	Write map[string]string
	// After is the delay until the next decision; 0: when something changes.
	After time.Duration
}

// DecideStatus returns the content of the trust status, and whether it must be written.
func DecideStatus(s StatusSituation) StatusDecision {
	if left := startGrace - s.Now.Sub(s.Started); starting(s.Kinds) && left > 0 {
		return StatusDecision{Wait: true, Awaited: s.Awaited, After: left}
	}
	s.Awaited = s.Awaited.next(s)
	d := StatusDecision{Summary: summarize(s), Awaited: s.Awaited}
	d.Report = d.Summary.Status.Problem != s.Reported
	if data := d.Summary.Status.Data(); !sameData(s.Current, data) {
		d.Write = data
	}
	if s.NoBundle == nil {
		d.After = s.Bundle.changesIn(s.Now)
	}
	return d
}

// sameData reports whether a ConfigMap holds all of data. Other keys are ignored.
func sameData(has, data map[string]string) bool {
	for k, v := range data {
		if got, ok := has[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Summary is the trust status, and the numbers for the metrics.
type Summary struct {
	Status   api.TrustStatus
	Kinds    map[string]KindState
	Counts   map[string]map[State]int  // by kind
	Refusing map[string]map[Reason]int // by kind
	// Grace counts the targets that delay a new generation of the CA only for a limited
	// time, by namespace.
	Grace map[string]int
}

func summarize(s StatusSituation) Summary {
	out := Summary{
		Status:   api.TrustStatus{BundleHash: s.Bundle.Hash},
		Kinds:    map[string]KindState{},
		Counts:   map[string]map[State]int{},
		Refusing: map[string]map[Reason]int{},
		Grace:    map[string]int{},
	}
	if s.NoBundle != nil {
		out.Status.Problem = s.NoBundle.Error()
	} else {
		out.Status.Since = s.Awaited.since
	}
	var open []openTarget
	for _, k := range s.Kinds {
		out.Kinds[k.Name], out.Counts[k.Name], out.Refusing[k.Name] = k.State, map[State]int{}, map[Reason]int{}
		if j, unseen := k.unseenTargets(); unseen {
			open = append(open, openTarget{TargetID: TargetID{k.Name, types.NamespacedName{Name: api.TrustAllOfKind}}, Evaluation: j})
		}
	}
	for _, t := range s.Targets {
		j := t.evaluation(s.Bundle.Hash)
		out.Counts[t.Kind][j.State]++
		switch j.State {
		case StateUnsuitable:
		case StateHolds:
			out.Status.Holding++
		default:
			open = append(open, openTarget{TargetID: t.TargetID, Evaluation: j})
		}
	}
	for i, o := range open {
		if o.State == StateRefuses {
			out.Status.Refusing++
			out.Refusing[o.Kind][o.Reason]++
		}
		if s.NoBundle == nil {
			open[i].weight = s.Awaited.weigh(o)
		}
		switch open[i].weight {
		case never:
			out.Status.Late++
		case grace:
			out.Status.Grace++
			out.Grace[o.Key.Namespace]++
		}
	}
	out.Status.Pending = len(open) - out.Status.Refusing
	out.Status.Targets = out.Status.Holding + len(open)
	out.Status.Namespaces = namedNamespaces(out.Grace)
	out.Status.NotHolding, out.Status.Unlisted = listed(open)
	return out
}

// openTarget is a target that does not hold the bundle.
type openTarget struct {
	TargetID
	Evaluation
	weight weight
}

// maxListedFirst is how many targets of one namespace the trust status names before those
// of other namespaces, so that one namespace does not fill the list.
const maxListedFirst = 5

// listed returns the targets that the trust status names, and the number of the others.
// Targets that delay a new generation of the CA come first, and among them those that
// refuse the bundle, which need a person.
func listed(open []openTarget) (list []api.TrustTarget, unlisted int) {
	refuses := func(o openTarget) int {
		if o.State == StateRefuses {
			return 0
		}
		return 1
	}
	slices.SortFunc(open, func(a, b openTarget) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), refuses(a)-refuses(b), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	var first, rest []openTarget
	seen := map[string]int{}
	for _, o := range open {
		if ns := o.Key.Namespace; ns != "" && seen[ns] >= maxListedFirst {
			rest = append(rest, o)
			continue
		}
		seen[o.Key.Namespace]++
		first = append(first, o)
	}
	open = slices.Concat(first, rest)
	if unlisted = len(open) - api.TrustMaxListed; unlisted > 0 {
		open = open[:api.TrustMaxListed]
	}
	for _, o := range open {
		list = append(list, api.TrustTarget{Kind: o.Kind, Namespace: o.Key.Namespace, Name: o.Key.Name, Reason: string(o.Reason), Message: o.Message})
	}
	return list, max(unlisted, 0)
}
