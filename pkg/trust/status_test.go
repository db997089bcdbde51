package trust

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

func seenAt(kind, namespace, name string, held Evaluation, last Record) SeenTarget {
	return SeenTarget{TargetID: TargetID{kind, types.NamespacedName{Namespace: namespace, Name: name}}, Held: held, Last: last}
}

func watched(names ...string) []KindStatus {
	var views []KindStatus
	for _, name := range names {
		views = append(views, KindStatus{Name: name, State: KindWatched})
	}
	return views
}

// summarizeFirst is the summary of a process that looks for the first time.
func summarizeFirst(s StatusSituation) Summary {
	s.Awaited = s.Awaited.next(s)
	return summarize(s)
}

func TestSummarize(t *testing.T) {
	forbidden := Evaluation{StateRefuses, ReasonForbidden, "may not\n  write"}
	targets := []SeenTarget{
		seenAt("A", "ns1", "x", Holds(), Record{}),
		seenAt("A", "ns2", "x", Differs("no key"), Record{}),
		seenAt("A", "ns3", "x", Differs("no key"), Record{Evaluation: forbidden, hash: "now"}),
		seenAt("A", "ns4", "x", Differs("no key"), Record{Evaluation: forbidden, hash: "before"}),
		seenAt("A", "ns5", "x", Holds(), Record{Evaluation: forbidden, hash: "now"}),
		seenAt("B", "", "y", Evaluation{StateUnsuitable, ReasonNoField, "no field"}, Record{}),
		seenAt("B", "", "z", Evaluation{StateRefuses, ReasonImmutable, "immutable"}, Record{}),
	}
	s := summarizeFirst(StatusSituation{Now: noon, Kinds: watched("A", "B", "C"), Bundle: Bundle{Hash: "now"}, Targets: targets})
	assert.Equal(t, api.TrustStatus{
		BundleHash: "now", Targets: 6, Holding: 2, Pending: 2, Refusing: 2,
		NotHolding: []api.TrustTarget{
			{Kind: "B", Name: "z", Reason: "Immutable", Message: "immutable"},
			{Kind: "A", Namespace: "ns2", Name: "x", Reason: "Differs", Message: "no key"},
			{Kind: "A", Namespace: "ns4", Name: "x", Reason: "Differs", Message: "no key"},
			{Kind: "A", Namespace: "ns3", Name: "x", Reason: "Forbidden", Message: "may not\n  write"},
		},
		Since: noon, Grace: 1, Namespaces: "ns3",
	}, s.Status)
	assert.Equal(t, 3, s.Status.HoldingUp())
	assert.Equal(t, map[string]int{"ns3": 1}, s.Grace)
	lines := []string{
		"B z: Immutable: immutable",
		"A ns2/x: Differs: no key",
		"A ns4/x: Differs: no key",
		"A ns3/x: Forbidden: may not write",
	}
	assert.Equal(t, map[string]map[State]int{
		"A": {StateHolds: 2, StatePending: 2, StateRefuses: 1},
		"B": {StateUnsuitable: 1, StateRefuses: 1},
		"C": {},
	}, s.Counts)
	assert.Equal(t, map[string]string{
		"bundle-hash": "now", "targets": "6", "holding": "2", "pending": "2", "refusing": "2", "problem": "",
		"since": "2026-03-01T12:00:00Z", "late": "0", "grace": "1", "grace-namespaces": "ns3",
		"not-holding": strings.Join(lines, "\n"),
	}, s.Status.Data())
}

// A kind whose targets cannot be watched may have one that does not hold the bundle, so
// it must not look as if all do. A kind that does not exist has none.
func TestSummarizeUnseenKinds(t *testing.T) {
	kinds := []KindStatus{
		{Name: "A", State: KindWatched},
		{Name: "B", State: KindStarting, Message: "not checked yet"},
		{Name: "C", State: KindRefused, Message: "no rights"},
		{Name: "D", State: KindAbsent, Message: "no such kind"},
	}
	s := summarizeFirst(StatusSituation{Now: noon, Kinds: kinds, Bundle: Bundle{Hash: "now"}, Targets: []SeenTarget{
		seenAt("A", "ns", "x", Holds(), Record{}), seenAt("C", "", "y", Holds(), Record{}),
	}})
	assert.Equal(t, api.TrustStatus{
		BundleHash: "now", Targets: 4, Holding: 2, Pending: 1, Refusing: 1, Since: noon,
		NotHolding: []api.TrustTarget{
			{Kind: "C", Name: "(all)", Reason: "Forbidden", Message: "no rights"},
			{Kind: "B", Name: "(all)", Reason: "Unavailable", Message: "not checked yet"},
		},
	}, s.Status)
	assert.Equal(t, []string{"C (all): Forbidden: no rights", "B (all): Unavailable: not checked yet"}, s.Status.NotHoldingLines())
	assert.Equal(t, map[string]KindState{"A": KindWatched, "B": KindStarting, "C": KindRefused, "D": KindAbsent}, s.Kinds)
	assert.Equal(t, map[Reason]int{ReasonForbidden: 1}, s.Refusing["C"])
	assert.Equal(t, map[State]int{StateHolds: 1}, s.Counts["C"])
}

func TestSummarizeWithoutSource(t *testing.T) {
	s := summarizeFirst(StatusSituation{Kinds: watched("A"), NoBundle: errors.New("source is gone"), Targets: []SeenTarget{seenAt("A", "ns", "x", Evaluation{}, Record{Evaluation: Holds(), hash: "before"})}})
	assert.Equal(t, api.TrustStatus{Targets: 1, Pending: 1, Problem: "source is gone", NotHolding: []api.TrustTarget{
		{Kind: "A", Namespace: "ns", Name: "x", Reason: "NoSource", Message: "there is no CA bundle to compare with"},
	}}, s.Status)
}

// A ConfigMap holds 1 MiB: the status of thousands of targets with all possible problems
// stays far below.
func TestStatusIsBounded(t *testing.T) {
	var targets []SeenTarget
	long := strings.Repeat("𝄞", 5000)
	for i := range 5000 {
		targets = append(targets, seenAt("MutatingWebhookConfiguration", fmt.Sprintf("%063d", i%500), fmt.Sprintf("%0253d", i), Evaluation{StateRefuses, ReasonInvalid, long}, Record{}))
	}
	size := 0
	for k, v := range summarize(StatusSituation{NoBundle: errors.New("x")}).Status.Data() {
		size += len(k) + len(v)
	}
	s := summarizeFirst(StatusSituation{Kinds: watched("MutatingWebhookConfiguration"), Bundle: Bundle{Hash: "h"}, Targets: targets})
	for k, v := range s.Status.Data() {
		size += len(k) + len(v)
	}
	assert.Less(t, size, 64<<10)
	assert.Equal(t, 4950, s.Status.Unlisted)
	lines := s.Status.NotHoldingLines()
	assert.Len(t, lines, api.TrustMaxListed+1)
	assert.Equal(t, "and 4950 more", lines[api.TrustMaxListed])
}

func TestSameData(t *testing.T) {
	data := api.TrustStatus{BundleHash: "h", Targets: 1, Holding: 1}.Data()
	with := func(key, value string) map[string]string {
		changed := api.TrustStatus{BundleHash: "h", Targets: 1, Holding: 1}.Data()
		changed[key] = value
		return changed
	}
	assert.True(t, sameData(data, data))
	assert.True(t, sameData(with("theirs", "x"), data))
	assert.False(t, sameData(with(api.TrustHolding, "0"), data))
	assert.False(t, sameData(with(api.TrustProblem, "x"), data))
	assert.False(t, sameData(nil, data))
}

func TestDecideStatus(t *testing.T) {
	situation := StatusSituation{
		Now: noon, Started: noon, Kinds: watched("A"),
		Bundle: Bundle{Hash: "now", Until: noon.Add(time.Hour)}, Targets: []SeenTarget{seenAt("A", "ns", "x", Holds(), Record{})},
	}
	data := api.TrustStatus{BundleHash: "now", Targets: 1, Holding: 1, Since: noon}.Data()
	tests := []struct {
		name   string
		change func(*StatusSituation)
		wait   bool
		report bool
		write  map[string]string
		after  time.Duration
	}{
		{"no status yet", func(*StatusSituation) {}, false, false, data, time.Hour + time.Second},
		{"as written", func(s *StatusSituation) { s.Current = data }, false, false, nil, time.Hour + time.Second},
		{"a cache is being filled", func(s *StatusSituation) { s.Kinds[0].State = KindStarting }, true, false, nil, 10 * time.Second},
		{"a cache is being filled, for long", func(s *StatusSituation) {
			s.Kinds[0] = KindStatus{Name: "A", State: KindStarting, Message: "no answer"}
			s.Targets, s.Now = nil, noon.Add(10*time.Second)
		}, false, false, api.TrustStatus{BundleHash: "now", Targets: 1, Pending: 1, Since: noon.Add(10 * time.Second), NotHolding: []api.TrustTarget{
			{Kind: "A", Name: api.TrustAllOfKind, Reason: "Unavailable", Message: "no answer"}}}.Data(), time.Hour - 9*time.Second},
		{"the source is damaged", func(s *StatusSituation) {
			s.Bundle, s.NoBundle, s.Targets = Bundle{}, errors.New("gone"), nil
		}, false, true, api.TrustStatus{Problem: "gone"}.Data(), 0},
		{"that was reported", func(s *StatusSituation) {
			s.Bundle, s.NoBundle, s.Targets, s.Reported = Bundle{}, errors.New("gone"), nil, "gone"
		}, false, false, api.TrustStatus{Problem: "gone"}.Data(), 0},
		{"repaired", func(s *StatusSituation) { s.Reported = "gone" }, false, true, data, time.Hour + time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := situation
			s.Kinds = watched("A")
			tt.change(&s)
			d := DecideStatus(s)
			assert.Equal(t, tt.wait, d.Wait)
			assert.Equal(t, tt.report, d.Report)
			assert.Equal(t, tt.write, d.Write)
			assert.Equal(t, tt.after, d.After)
		})
	}
}

func TestStatusDelay(t *testing.T) {
	for targets, want := range map[int]time.Duration{
		0: time.Second, 1999: time.Second, 2000: 2 * time.Second, 10_000: 6 * time.Second, 18_000: 10 * time.Second, 1_000_000: 10 * time.Second,
	} {
		assert.Equal(t, want, StatusDelay(time.Second, targets), targets)
	}
}
