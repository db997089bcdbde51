package report

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func stale(name string, onRotate api.OnRotate) Workload {
	return Workload{Namespace: "shop", Stale: serving.StaleWorkload{
		Workload: pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
		Key:      pods.SecretKey(name + "-tls"), Leaf: rotatortest.Leaf(2), Since: rotatortest.Noon, OnRotate: onRotate, Pods: 3, Pod: name + "-0",
	}}
}

func entry(name string, onRotate api.OnRotate, held *api.RestartHold) api.StaleWorkload {
	return api.StaleWorkload{
		Namespace: "shop", Kind: "Deployment", Name: name, Secret: name + "-tls", Leaf: rotatortest.Leaf(2), Since: rotatortest.Noon, Pods: 3, OnRotate: onRotate, Held: held,
	}
}

func dataOf(t require.TestingT, entries ...api.StaleWorkload) map[string]string {
	s, err := api.NewServingStatus(entries)
	require.NoError(t, err)
	data, err := s.Data()
	require.NoError(t, err)
	return data
}

func decide(t require.TestingT, s Situation) map[string]string {
	d, err := Decide(s)
	require.NoError(t, err)
	return d.Data
}

func TestWhatIsReported(t *testing.T) {
	budget := &restart.Held{Hold: "DisruptionBudget", Message: "PodDisruptionBudget web allows no disruption now"}
	turn := &restart.Held{Hold: "Turn", Message: "Deployment other is rolling out"}
	with := func(w Workload, held *restart.Held) Workload {
		w.Held = held
		return w
	}
	other := stale("web", api.OnRotateRestart)
	other.Stale.ReadsOtherFiles = true
	bare := stale("", api.OnRotateReload)
	bare.Stale.Workload, bare.Stale.Key, bare.Stale.BarePods, bare.Stale.Pods = pods.Workload{}, pods.SecretKey("x-tls"), []string{"a", "b"}, 2
	ofPod := func(name string) api.StaleWorkload {
		e := entry(name, api.OnRotateReload, nil)
		e.Kind, e.Secret, e.Pods = api.PodKind, "x-tls", 1
		return e
	}
	for name, tt := range map[string]struct {
		workload Workload
		want     []api.StaleWorkload
	}{
		"reload":            {stale("web", api.OnRotateReload), []api.StaleWorkload{entry("web", api.OnRotateReload, nil)}},
		"restart":           {stale("web", api.OnRotateRestart), []api.StaleWorkload{entry("web", api.OnRotateRestart, nil)}},
		"held":              {with(stale("web", api.OnRotateRestart), budget), []api.StaleWorkload{entry("web", api.OnRotateRestart, &api.RestartHold{Reason: "DisruptionBudget", Message: budget.Message})}},
		"waits":             {with(stale("web", api.OnRotateRestart), turn), []api.StaleWorkload{entry("web", api.OnRotateRestart, &api.RestartHold{Reason: "Turn", Message: turn.Message, Passes: true})}},
		"bare":              {bare, []api.StaleWorkload{ofPod("a"), ofPod("b")}},
		"reads other files": {other, []api.StaleWorkload{entry("web", api.OnRotateRestart, other.hold())}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, dataOf(t, tt.want...), decide(t, Situation{Workloads: []Workload{tt.workload}}))
		})
	}
	assert.Equal(t, "ReadsOtherFiles", other.hold().Reason)
	assert.False(t, other.hold().Passes)
}

func TestAReportIsWrittenWhenItChanges(t *testing.T) {
	empty := decide(t, Situation{})
	assert.Equal(t, dataOf(t), empty, "that nothing is stale is reported")
	assert.Nil(t, decide(t, Situation{Present: empty}))
	assert.Equal(t, empty, decide(t, Situation{Present: map[string]string{}}), "what cannot be read is replaced")
	assert.Equal(t, empty, decide(t, Situation{Present: dataOf(t, entry("web", api.OnRotateReload, nil))}))
}

// A new leader goes on where the one before stopped.
func TestANewLeader(t *testing.T) {
	key := pods.NamespacedKey{Namespace: "shop", Key: pods.SecretKey("web-tls")}
	held := &api.RestartHold{Reason: "Paused", Message: "it is paused"}
	present := dataOf(t, entry("web", api.OnRotateRestart, held), entry("gone", api.OnRotateReload, nil))
	unjudged := map[pods.NamespacedKey]bool{key: true}

	assert.Nil(t, decide(t, Situation{Unjudged: unjudged}), "nothing is reported before all is known")
	assert.Equal(t, dataOf(t, entry("web", api.OnRotateRestart, held)), decide(t, Situation{Unjudged: unjudged, Present: present}),
		"what is not judged yet is kept; what is no more is not")
	assert.Equal(t, dataOf(t, entry("web", api.OnRotateRestart, held)),
		decide(t, Situation{Unjudged: unjudged, Present: present, Workloads: []Workload{stale("web", api.OnRotateRestart)}}), "and counted once")

	undecided := stale("web", api.OnRotateRestart)
	undecided.Undecided = true
	assert.Equal(t, dataOf(t, entry("web", api.OnRotateRestart, held)), decide(t, Situation{Present: present, Workloads: []Workload{undecided}}))
	undecided.Undecided = false
	assert.Equal(t, dataOf(t, entry("web", api.OnRotateRestart, nil)), decide(t, Situation{Present: present, Workloads: []Workload{undecided}}))
	assert.Equal(t, dataOf(t), decide(t, Situation{Present: present}))
}

// Pods of one workload of which a restart would help some are one entry.
func TestOneEntryForAWorkload(t *testing.T) {
	other, some := stale("web", api.OnRotateRestart), stale("web", api.OnRotateRestart)
	other.Stale.ReadsOtherFiles = true
	want := entry("web", api.OnRotateRestart, nil)
	want.Pods = 6
	for range 2 {
		assert.Equal(t, dataOf(t, want), decide(t, Situation{Workloads: []Workload{some, other}}))
		assert.Equal(t, dataOf(t, want), decide(t, Situation{Workloads: []Workload{other, some}}))
		some.Held = &restart.Held{Hold: "Paused", Message: "it is paused"}
		want.Held = &api.RestartHold{Reason: "Paused", Message: "it is paused"}
	}
}

// Equal situations give equal bytes, in whatever order they are gathered, and all
// workloads are in them.
func TestPropertyAReportIsWholeAndDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Workload
		for i := range rapid.IntRange(0, 30).Draw(t, "n") {
			w := stale(fmt.Sprintf("w%02d", i), rapid.SampledFrom([]api.OnRotate{api.OnRotateReload, api.OnRotateRestart, api.OnRotateNone}).Draw(t, "onRotate"))
			w.Namespace = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace")
			all = append(all, w)
		}
		want := decide(t, Situation{Workloads: all})
		shuffled := rapid.Permutation(all).Draw(t, "shuffled")
		require.Equal(t, want, decide(t, Situation{Workloads: shuffled}))
		status, err := api.ParseServingStatus(want)
		require.NoError(t, err)
		require.Len(t, status.Stale, len(all))
		require.False(t, status.Partial())
		for _, w := range all {
			require.True(t, slices.ContainsFunc(status.Stale, func(e api.StaleWorkload) bool { return e.Namespace == w.Namespace && e.Name == w.Stale.Workload.Name }))
		}
	})
}
