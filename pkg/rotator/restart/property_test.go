package restart

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// restartWorld is a few namespaces with workloads whose rollouts take a while, the state of the
// leader, and a clock.
type restartWorld struct {
	t          *rapid.T
	now        time.Time
	limits     Limits
	state      *State
	namespaces map[string]map[pods.Workload]*modelWorkload
	restarts   map[string]int // by namespace, workload and leaf
}

// modelWorkload is a workload in the cluster.
type modelWorkload struct {
	WorkloadStatus
	stale, old    bool // its pods serve an old certificate; they were made before the current one
	leaf          int
	since         time.Time
	left          int // steps until its rollout is complete
	broken        bool
	ready, budget bool
	ours          bool // the rollout that goes on was started for a certificate
	stopped       bool // and was stuck for a while, so that it gave its place back
}

func newRestartWorld(t *rapid.T) *restartWorld {
	w := &restartWorld{t: t, now: restartNow, limits: testLimits, namespaces: map[string]map[pods.Workload]*modelWorkload{}, restarts: map[string]int{}}
	w.limits.Max = rapid.IntRange(1, 3).Draw(t, "max")
	w.lead()
	for n := range rapid.IntRange(1, 4).Draw(t, "namespaces") {
		workloads := map[pods.Workload]*modelWorkload{}
		for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
			key := pods.Workload{APIVersion: "apps/v1", Kind: rapid.SampledFrom([]string{"Deployment", "StatefulSet", "DaemonSet"}).Draw(t, "kind"), Name: fmt.Sprint("w", i)}
			workloads[key] = &modelWorkload{WorkloadStatus: statusFor(key), since: w.now, ready: true, budget: true, stale: true, old: true}
		}
		w.namespaces[fmt.Sprint("ns", n)] = workloads
	}
	return w
}

// lead starts a new leader, for which the pods of current rollouts are not ready.
func (w *restartWorld) lead() {
	w.state = NewState()
	for namespace, workloads := range w.namespaces {
		for key, m := range workloads {
			if !m.progress.done {
				w.state.AddUnconfirmed(namespace, key, w.now)
			}
		}
	}
}

func (w *restartWorld) each(f func(namespace string, key pods.Workload, m *modelWorkload)) {
	for n := range len(w.namespaces) {
		namespace := fmt.Sprint("ns", n)
		for i := range len(w.namespaces[namespace]) {
			for key, m := range w.namespaces[namespace] {
				if key.Name == fmt.Sprint("w", i) {
					f(namespace, key, m)
				}
			}
		}
	}
}

func (w *restartWorld) situation(namespace string) (Situation, *answers) {
	s := w.state.Situation(namespace, w.limits, w.now)
	a := &answers{workloads: map[pods.Workload]WorkloadStatus{}, services: map[string]ServiceStatus{}}
	w.each(func(in string, key pods.Workload, m *modelWorkload) {
		if in != namespace {
			return
		}
		a.workloads[key] = m.WorkloadStatus
		a.services[key.Name] = ServiceStatus{m.ready, fmt.Sprint(m.leaf)}
		allowed := int32(0)
		if m.budget {
			allowed = 1
		}
		a.budgets = append(a.budgets, budget(key.Name, allowed, key.Name))
		if m.stale && m.old {
			stale := staleOf(key)
			stale.Leaf, stale.Since = fmt.Sprint(m.leaf), m.since
			s.Stale = append(s.Stale, stale)
			s.Labels[stale.Pod] = map[string]string{"app": key.Name}
		}
	})
	return s, a
}

// look does what Reconcile does, and checks the invariants.
func (w *restartWorld) look(namespace string) {
	s, a := w.situation(namespace)
	d := a.decide(w.t, s)
	if d.Start != nil {
		m := w.namespaces[namespace][d.Start.Stale.Workload]
		require.True(w.t, m.stale && m.old && m.ready && m.budget && m.asks && m.progress.done, "%+v", m)
		require.False(w.t, m.paused || m.onDelete || m.deleting, "%+v", m)
		id := fmt.Sprint(namespace, d.Start.Stale.Workload, m.leaf)
		w.restarts[id]++
		require.Equal(w.t, 1, w.restarts[id], "%s was restarted for this certificate before", id)
		m.restartedAt, m.progress.done, m.ours, m.stopped = w.now, false, true, false
		m.progress.counts.updated = 0
		m.left = rapid.IntRange(1, 6).Draw(w.t, "steps")
		m.broken = rapid.IntRange(0, 5).Draw(w.t, "broken") == 0
	}
	w.state.Put(namespace, d, true)
	w.check()
}

func (w *restartWorld) check() {
	rolling := 0
	byNamespace := map[string]int{}
	w.each(func(namespace string, _ pods.Workload, m *modelWorkload) {
		if m.ours && !m.progress.done && !m.deleting {
			byNamespace[namespace]++
			if m.stopped = m.stopped || m.progress.exceeded || m.paused; !m.stopped {
				rolling++
			}
		}
	})
	require.LessOrEqual(w.t, rolling, w.limits.Max, "--max-restarts")
	for namespace, n := range byNamespace {
		require.LessOrEqual(w.t, n, 1, "rolling in %s", namespace)
	}
}

// tick lets rollouts progress or fail.
func (w *restartWorld) tick() {
	w.now = w.now.Add(10 * time.Second)
	w.each(func(_ string, _ pods.Workload, m *modelWorkload) {
		switch {
		case m.progress.done || m.paused:
		case m.broken:
			m.progress.exceeded = true
		default:
			m.left--
			m.progress.counts.updated++
			if m.left <= 0 {
				m.progress.done, m.progress.exceeded, m.stale, m.old, m.ours = true, false, false, false, false
			}
		}
	})
}

// happen changes one workload.
func (w *restartWorld) happen(m *modelWorkload) {
	switch rapid.SampledFrom([]string{"rotate", "rotate", "pause", "budget", "ready", "repair", "person"}).Draw(w.t, "what") {
	case "rotate":
		m.leaf++
		m.since, m.stale, m.old = w.now, true, true
	case "pause":
		m.paused = !m.paused
	case "budget":
		m.budget = !m.budget
	case "ready":
		m.ready = !m.ready
	case "repair":
		m.broken, m.progress.exceeded = false, false
	case "person": // restarts it
		if m.progress.done && !m.paused {
			m.restartedAt, m.progress.done, m.left = w.now, false, 2
		}
	}
}

func TestRestartProperties(t *testing.T) {
	restarted := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newRestartWorld(t)
		var all []*modelWorkload
		w.each(func(_ string, _ pods.Workload, m *modelWorkload) { all = append(all, m) })
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"look", "look", "look", "look", "tick", "tick", "happen", "happen", "lead"}).Draw(t, "act") {
			case "look":
				w.look(fmt.Sprint("ns", rapid.IntRange(0, len(w.namespaces)-1).Draw(t, "namespace")))
			case "tick":
				w.tick()
				w.check()
			case "happen":
				w.happen(all[rapid.IntRange(0, len(all)-1).Draw(t, "workload")])
				w.check()
			case "lead":
				w.lead()
			}
		}
		w.settles(all)
		restarted += len(w.restarts)
	})
	assert.Greater(t, restarted, 300, "the drawn worlds restart hardly anything")
}

// Without holds, all stale workloads are restarted in the end.
func (w *restartWorld) settles(all []*modelWorkload) {
	for range 200 {
		for _, m := range all {
			m.paused, m.budget, m.ready, m.broken, m.progress.exceeded = false, true, true, false, false
		}
		for n := range len(w.namespaces) {
			w.look(fmt.Sprint("ns", n))
		}
		w.tick()
	}
	w.each(func(namespace string, key pods.Workload, m *modelWorkload) {
		require.False(w.t, m.stale, "%s %s/%s is still stale: %+v", key.Kind, namespace, key.Name, m)
	})
}
