package trust

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

// statusAfter returns the trust status after each of the situations, by one process,
// a second after each other.
func statusAfter(situations ...StatusSituation) []api.TrustStatus {
	var all []api.TrustStatus
	var awaited Awaited
	for i, s := range situations {
		s.Now, s.Started, s.Awaited = noon.Add(time.Duration(i)*time.Second), noon, awaited
		if s.Kinds == nil {
			s.Kinds = watched("A", "B")
		}
		if s.NoBundle == nil && s.Bundle.Hash == "" {
			s.Bundle.Hash = "new"
		}
		d := DecideStatus(s)
		awaited = d.Awaited
		all = append(all, d.Summary.Status)
	}
	return all
}

func TestWhoHoldsUpANewCA(t *testing.T) {
	var (
		off     = Differs("no key")
		refused = Evaluation{StateRefuses, ReasonImmutable, "immutable"}
		at      = func(held Evaluation) StatusSituation {
			return StatusSituation{Targets: []SeenTarget{seenAt("A", "shop", "x", held, Record{})}}
		}
		none      = StatusSituation{}
		created   = func(s StatusSituation, at time.Time) StatusSituation { s.Targets[0].Created = at; return s }
		withdrawn = func(s StatusSituation) StatusSituation { s.Withdrawn = []TargetID{s.Targets[0].TargetID}; return s }
		ofCluster = func(held Evaluation) StatusSituation {
			return StatusSituation{Targets: []SeenTarget{seenAt("B", "", "x", held, Record{})}}
		}
		starting = func(s StatusSituation) StatusSituation {
			s.Kinds = []KindStatus{{Name: "A", State: KindRefused}}
			return s
		}
		taken = func(s StatusSituation, at time.Time, hash string) StatusSituation {
			s.Current = api.TrustStatus{BundleHash: hash, Since: at}.Data()
			return s
		}
		before = func(s StatusSituation) StatusSituation { s.Bundle.Hash = "old"; return s }
	)
	tests := []struct {
		name             string
		seen             []StatusSituation
		holdingUp, grace int
		late             int
	}{
		{"to be written", []StatusSituation{at(off)}, 1, 0, 0},
		{"refuses", []StatusSituation{at(off), at(refused)}, 0, 1, 0},
		{"lost it again", []StatusSituation{at(off), at(Holds()), at(off)}, 0, 1, 0},
		{"held another bundle", []StatusSituation{before(at(Holds())), at(off)}, 1, 0, 0},
		{"new", []StatusSituation{none, at(off)}, 0, 0, 1},
		{"new and refuses", []StatusSituation{none, at(refused)}, 0, 0, 1},
		{"new before the bundle", []StatusSituation{before(none), before(at(off)), at(off)}, 1, 0, 0},
		{"gone for a while", []StatusSituation{at(off), none, at(off)}, 0, 0, 1},
		{"withdrawn between two looks", []StatusSituation{at(off), withdrawn(at(off))}, 0, 0, 1},
		{"withdrawn before the bundle", []StatusSituation{before(at(off)), withdrawn(at(off))}, 1, 0, 0},
		{"asked for nothing that could be followed", []StatusSituation{at(NoField("none")), at(off)}, 0, 0, 1},
		{"of the cluster, refuses", []StatusSituation{ofCluster(off), ofCluster(refused)}, 1, 0, 0},
		{"of the cluster, new", []StatusSituation{none, ofCluster(off)}, 1, 0, 0},
		{"of a kind that is seen for the first time", []StatusSituation{starting(none), at(off)}, 1, 0, 0},
		{"by a new process", []StatusSituation{taken(created(at(off), noon.Add(-time.Hour)), noon.Add(-time.Minute), "new")}, 1, 0, 0},
		{"new by a new process", []StatusSituation{taken(created(at(off), noon.Add(-time.Minute)), noon.Add(-time.Hour), "new")}, 0, 0, 1},
		{"new within what clocks may differ", []StatusSituation{taken(created(at(off), noon.Add(-58*time.Minute)), noon.Add(-time.Hour), "new")}, 1, 0, 0},
		{"the status was of another bundle", []StatusSituation{taken(created(at(off), noon.Add(-time.Minute)), noon.Add(-time.Hour), "old")}, 1, 0, 0},
		{"the status is from the future", []StatusSituation{taken(created(at(off), noon.Add(-time.Minute)), noon.Add(time.Hour), "new")}, 1, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := statusAfter(tt.seen...)
			last := all[len(all)-1]
			assert.Equal(t, []int{tt.holdingUp, tt.grace, tt.late}, []int{last.HoldingUp(), last.Grace, last.Late}, "%+v", last)
		})
	}
}

// The time when a bundle was first observed stays the same in later processes, and while
// the source is damaged.
func TestTakenUp(t *testing.T) {
	damaged := StatusSituation{NoBundle: assert.AnError}
	all := statusAfter(StatusSituation{}, StatusSituation{}, damaged, StatusSituation{}, StatusSituation{Bundle: Bundle{Hash: "newer"}})
	var got []time.Time
	for _, s := range all {
		got = append(got, s.Since)
	}
	assert.Equal(t, []time.Time{noon, noon, {}, noon, noon.Add(4 * time.Second)}, got)
}

func TestNamedNamespaces(t *testing.T) {
	assert.Empty(t, namedNamespaces(nil))
	assert.Equal(t, "a, bank, shop", namedNamespaces(map[string]int{"shop": 1, "bank": 3, "a": 1}))
	many := map[string]int{}
	for i := range 13 {
		many[fmt.Sprintf("n%02d", i)] = 1
	}
	assert.Equal(t, "n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 3 more", namedNamespaces(many))
}

// One namespace does not fill the list of those that do not hold the bundle.
func TestOneNamespaceDoesNotFillTheList(t *testing.T) {
	var targets []SeenTarget
	for i := range 200 {
		targets = append(targets, seenAt("A", "flood", fmt.Sprintf("%03d", i), Evaluation{StateRefuses, ReasonImmutable, "x"}, Record{}))
	}
	targets = append(targets, seenAt("A", "shop", "x", Evaluation{StateRefuses, ReasonForbidden, "x"}, Record{}))
	s := summarizeFirst(StatusSituation{Kinds: watched("A"), Bundle: Bundle{Hash: "h"}, Targets: targets})
	require.Len(t, s.Status.NotHolding, api.TrustMaxListed)
	assert.Equal(t, "shop", s.Status.NotHolding[maxListedFirst].Namespace)
	assert.Equal(t, 151, s.Status.Unlisted)
	assert.Equal(t, "flood, shop", s.Status.Namespaces)
}

// tenant is the world of the property below: targets of a namespace whose owner changes
// them arbitrarily, and of another whose owner does nothing.
type tenant struct {
	*rapid.T
	now     time.Time
	records map[TargetID]Record
	targets map[TargetID]*tenantTarget
	made    int
	awaited Awaited
	gone    []TargetID
	status  api.TrustStatus
}

type tenantTarget struct {
	created   time.Time
	requested bool
	refuses   bool // immutable, or refused by admission or a quota
	away      bool // a webhook does not answer
	holds     bool
}

const tenantPatience = 5 * time.Minute

func targetID(namespace, name string) TargetID {
	return TargetID{"A", types.NamespacedName{Namespace: namespace, Name: name}}
}

// tenantActs does one thing to an object of the hostile namespace.
func (w *tenant) tenantActs() {
	ids := slices.SortedFunc(maps.Keys(w.targets), func(a, b TargetID) int {
		return slices.Compare([]string{a.Key.Namespace, a.Key.Name}, []string{b.Key.Namespace, b.Key.Name})
	})
	ids = slices.DeleteFunc(ids, func(id TargetID) bool { return id.Key.Namespace != "hostile" })
	what := rapid.SampledFrom([]string{"create", "delete", "annotate", "take away", "refuse", "allow", "change back", "stop answering", "ask anew", "ask anew", "ask anew"}).Draw(w.T, "does")
	if what == "create" || len(ids) == 0 {
		w.made++
		w.targets[targetID("hostile", fmt.Sprint(w.made))] = &tenantTarget{created: w.now, requested: true, refuses: rapid.Bool().Draw(w.T, "refuses")}
		return
	}
	id := rapid.SampledFrom(ids).Draw(w.T, "target")
	switch t := w.targets[id]; what {
	case "delete":
		delete(w.targets, id)
	case "annotate":
		t.requested = true
	case "take away":
		t.requested = false
	case "refuse":
		t.refuses = true
	case "allow":
		t.refuses, t.away = false, false
	case "change back":
		t.holds = false
	case "stop answering":
		t.away = true
	case "ask anew": // between two looks at the status
		t.requested = false
		w.look(id)
		t.requested, t.away, t.holds = true, true, false
	}
}

// look lets the rotator look at a target, as its reconciler does.
func (w *tenant) look(id TargetID) {
	t := w.targets[id]
	s := Situation{Now: w.now, Bundle: Bundle{Hash: "new", Until: w.now.Add(time.Hour)}, Patience: tenantPatience, Last: w.records[id]}
	if t != nil {
		s.Exists, s.Requested, s.Held = true, t.requested, w.held(t)
	}
	d := Decide(s)
	if d.Forget {
		if _, known := w.records[id]; known {
			w.gone = append(w.gone, id)
		}
		delete(w.records, id)
		return
	}
	var a Attempt
	switch {
	case d.Write == "":
	case t.refuses:
		a.Failure = Evaluation{StateRefuses, ReasonInvalid, "refused"}
	case t.away:
		a.Failure = Evaluation{StatePending, ReasonUnavailable, "no answer"}
	default:
		a.Wrote, t.holds = true, true
	}
	w.records[id] = Conclude(s, d, a).Record
}

func (w *tenant) held(t *tenantTarget) Evaluation {
	if t.holds {
		return Holds()
	}
	return Differs("something else")
}

// decide updates the trust status.
func (w *tenant) decide() {
	s := StatusSituation{Now: w.now, Started: noon, Kinds: watched("A"), Bundle: Bundle{Hash: "new", Until: w.now.Add(time.Hour)}, Awaited: w.awaited, Withdrawn: w.gone, Current: w.status.Data()}
	for id, t := range w.targets {
		if t.requested {
			s.Targets = append(s.Targets, SeenTarget{TargetID: id, Created: t.created, Held: w.held(t), Last: w.records[id]})
		}
	}
	d := DecideStatus(s)
	w.awaited, w.status, w.gone = d.Awaited, d.Summary.Status, nil
}

// Whatever a tenant does to the objects of its namespace, none of them delays a new
// generation of the CA for longer than the grace once patience has run out. A target of
// another namespace that existed when the bundle was first observed delays it until it
// holds the bundle, however late that is, even if the rotator restarts in between.
func TestATenantHoldsUpNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &tenant{T: t, now: noon, records: map[TargetID]Record{}, targets: map[TargetID]*tenantTarget{}}
		honest := targetID("honest", "x")
		w.targets[honest] = &tenantTarget{created: noon.Add(-time.Hour), requested: true}
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			w.tenantActs()
		}
		w.decide()
		ticks := rapid.IntRange(1, 30).Draw(t, "ticks")
		written := rapid.IntRange(0, ticks).Draw(t, "the honest one is written at")
		began := w.now // the process
		for i := range ticks {
			for range rapid.IntRange(0, 4).Draw(t, "acts") {
				w.tenantActs()
				if rapid.Bool().Draw(t, "is seen") {
					w.decide()
				}
			}
			if rapid.IntRange(0, 19).Draw(t, "begins anew") == 0 {
				w.records, w.awaited, w.gone, began = map[TargetID]Record{}, Awaited{}, nil, w.now
			}
			for id := range maps.Clone(w.records) {
				w.look(id)
			}
			for id := range maps.Clone(w.targets) {
				if id != honest || i >= written {
					w.look(id)
				}
			}
			w.decide()
			if !w.targets[honest].holds {
				require.Positive(t, w.status.HoldingUp(), "the honest target is waited for")
				require.Contains(t, w.awaited.held, honest)
			} else if w.now.Sub(began) >= tenantPatience {
				require.Zero(t, w.status.HoldingUp(), "%+v", w.status)
			}
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
		}
		require.Equal(t, noon, w.status.Since)
	})
}
