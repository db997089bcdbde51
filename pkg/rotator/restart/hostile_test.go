package restart

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// hostileStep is what the owner of a workload does every ten seconds to keep one of the places.
type hostileStep func(m *modelWorkload, now time.Time)

var hostileSteps = map[string]hostileStep{
	"never ends":          func(m *modelWorkload, _ time.Time) { m.progress.deadline = 2147483646 * time.Second },
	"readiness flaps":     func(m *modelWorkload, _ time.Time) { m.progress.counts.ready = 1 - m.progress.counts.ready },
	"ends and begins":     func(m *modelWorkload, _ time.Time) { m.progress.done = !m.progress.done },
	"gets stuck and goes": func(m *modelWorkload, _ time.Time) { m.progress.exceeded = !m.progress.exceeded },
	"paused and resumed":  func(m *modelWorkload, _ time.Time) { m.paused = !m.paused },
	"restarts itself":     func(m *modelWorkload, now time.Time) { m.restartedAt, m.progress.done = now, !m.progress.done },
	"restarts tomorrow":   func(m *modelWorkload, now time.Time) { m.restartedAt = now.Add(24 * time.Hour) },
	"rotates": func(m *modelWorkload, now time.Time) {
		if m.progress.done || now.Sub(m.since) > time.Minute {
			m.leaf, m.since, m.progress.done = m.leaf+1, now, true
		}
	},
	"made anew": func(m *modelWorkload, now time.Time) {
		if !m.progress.done {
			m.deleting = !m.deleting
		}
		m.restartedAt, m.leaf, m.since = time.Time{}, m.leaf+1, now
	},
}

// hostileWorld is a restartWorld in which some namespaces are hostile.
type hostileWorld struct {
	*restartWorld
	steps   map[*modelWorkload]hostileStep
	order   []string // in which namespaces are looked at
	honest  []*modelWorkload
	started map[*modelWorkload]time.Time
}

func newHostileWorld(t *rapid.T) *hostileWorld {
	w := &hostileWorld{
		restartWorld: &restartWorld{t: t, now: restartNow, limits: testLimits, namespaces: map[string]map[pods.Workload]*modelWorkload{}},
		steps:        map[*modelWorkload]hostileStep{}, started: map[*modelWorkload]time.Time{},
	}
	w.limits.Max = rapid.IntRange(1, 3).Draw(t, "max")
	kinds := []string{}
	for kind := range hostileSteps {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	hostile := rapid.IntRange(1, 4).Draw(t, "hostile namespaces")
	for n := range hostile + rapid.IntRange(1, 3).Draw(t, "honest namespaces") {
		namespace, workloads := fmt.Sprint("ns", n), map[pods.Workload]*modelWorkload{}
		for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
			key := pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprint("w", i)}
			m := &modelWorkload{WorkloadStatus: statusFor(key), since: w.now.Add(-time.Hour), ready: true, budget: true, stale: true, old: true}
			workloads[key] = m
			if n >= hostile {
				w.honest = append(w.honest, m)
				continue
			}
			w.steps[m] = hostileSteps[rapid.SampledFrom(kinds).Draw(t, "what it does")]
			if rapid.Bool().Draw(t, "rolls when the leader begins") {
				m.progress.done = false
				m.restartedAt = w.now.Add(-rapid.SampledFrom([]time.Duration{-time.Hour, 0, time.Minute, 2 * time.Hour}).Draw(t, "for"))
			}
		}
		w.namespaces[namespace] = workloads
		w.order = append(w.order, namespace)
	}
	w.order = rapid.Permutation(w.order).Draw(t, "order")
	w.lead()
	return w
}

func (w *hostileWorld) look(namespace string) {
	s, a := w.situation(namespace)
	d := a.decide(w.t, s)
	if d.Start != nil {
		m := w.namespaces[namespace][d.Start.Stale.Workload]
		m.restartedAt, m.progress.done, m.left = w.now, false, 3
		w.started[m] = w.now
	}
	w.state.Put(namespace, d, true)
	require.LessOrEqual(w.t, len(w.state.Totals().Places), w.limits.Max+len(w.namespaces), "places")
}

// tick is ten seconds: honest rollouts progress, and hostile owners act.
func (w *hostileWorld) tick() {
	w.now = w.now.Add(10 * time.Second)
	w.each(func(_ string, _ pods.Workload, m *modelWorkload) {
		step, hostile := w.steps[m]
		switch {
		case hostile:
			step(m, w.now)
		case !m.progress.done:
			m.left--
			m.progress.counts.updated++
			m.progress.done, m.stale = m.left <= 0, m.left > 0
		}
	})
}

// Whatever the owners of other workloads do, a workload is restarted after a bounded time: that of
// the places before it.
func TestHostileWorkloadsDelayOthersForBoundedTime(t *testing.T) {
	hostileStarts := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newHostileWorld(t)
		// In each round, every other namespace has a place once before an honest one gets one; its
		// workloads take turns too. A minute is for the time between decisions.
		rounds := len(w.namespaces)/w.limits.Max + 1
		bound := time.Duration(3*rounds) * (w.limits.PlaceFor + 2*time.Minute)
		for w.now.Sub(restartNow) < bound {
			for _, namespace := range w.order {
				w.look(namespace)
			}
			w.tick()
			if !slices.ContainsFunc(w.honest, func(m *modelWorkload) bool { return m.stale }) {
				break
			}
		}
		for _, m := range w.honest {
			require.False(t, m.stale, "an honest workload is not restarted within %s: %+v", bound, m)
		}
		hostileStarts += len(w.started) - len(w.honest)
	})
	assert.Greater(t, hostileStarts, 50, "the hostile workloads hardly take part")
}

// Three endless rollouts of other namespaces hold all places for PlaceFor only, although their
// Deployments have a deadline of 68 years.
func TestPlaceIsHeldForBoundedTime(t *testing.T) {
	m := NewState()
	web := staleOf(webWorkload)
	look := func(namespace string, now time.Time, change func(*WorkloadStatus)) Decision {
		s, a := m.Situation(namespace, testLimits, now), answersFor(web)
		st := statusFor(webWorkload)
		change(&st)
		a.workloads[webWorkload] = st
		s.Stale, s.Labels[web.Pod] = append(s.Stale, web), st.template
		d := a.decide(t, s)
		m.Put(namespace, d, true)
		return d
	}
	ready := func(*WorkloadStatus) {}
	endless := func(st *WorkloadStatus) {
		st.restartedAt, st.progress.done, st.progress.deadline = restartNow, false, 2147483646*time.Second
	}
	hostile := []string{"a", "b", "c"}
	for _, namespace := range hostile {
		require.NotNil(t, look(namespace, restartNow, ready).Start)
	}
	for _, at := range []time.Duration{time.Second, testLimits.PlaceFor - time.Second} {
		for _, namespace := range hostile {
			look(namespace, restartNow.Add(at), endless)
		}
		d := look("shop", restartNow.Add(at), ready)
		require.Len(t, d.Held, 1)
		assert.Equal(t, holdFull, d.Held[0].Hold)
		assert.Equal(t, hostile, m.Totals().Places)
	}
	d := look("shop", restartNow.Add(testLimits.PlaceFor), ready)
	require.NotNil(t, d.Start, "even if the others were not checked")
	for _, namespace := range hostile {
		d := look(namespace, restartNow.Add(testLimits.PlaceFor), endless)
		require.Len(t, d.Held, 1)
		assert.Equal(t, holdRolling, d.Held[0].Hold)
		assert.Empty(t, d.Stuck)
	}
	assert.Equal(t, []string{"shop"}, m.Totals().Places)
}

// A namespace has one place, even if a new leader finds many rollouts in it.
func TestNamespaceHasOnePlace(t *testing.T) {
	m := NewState()
	for i := range 10 {
		m.AddUnconfirmed("hostile", pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprint("w", i)}, restartNow)
	}
	assert.Equal(t, testLimits.Max-1, m.Situation("shop", testLimits, restartNow).free)
}

// The namespaces that wait for a place get it in order of arrival.
func TestNamespacesTakeTurns(t *testing.T) {
	m, limits := NewState(), testLimits
	limits.Max = 1
	web := staleOf(webWorkload)
	look := func(namespace string, after time.Duration) Decision {
		s, a := m.Situation(namespace, limits, restartNow.Add(after)), answersFor(web)
		s.Stale, s.Labels[web.Pod] = append(s.Stale, web), map[string]string{"app": "web"}
		d := a.decide(t, s)
		m.Put(namespace, d, true)
		return d
	}
	require.NotNil(t, look("a", 0).Start)
	for i, namespace := range []string{"c", "b", "c"} {
		require.Nil(t, look(namespace, time.Duration(i)*time.Second).Start)
	}
	delete(m.namespaces, "a") // its rollout is over
	d := look("b", 5*time.Second)
	require.Len(t, d.Held, 1)
	assert.Equal(t, holdFull, d.Held[0].Hold, "c was there before")
	assert.Contains(t, d.Held[0].Message, "have all --max-restarts (1) places, or have waited for longer")
	require.Nil(t, look("d", 5*time.Second).Start)
	require.NotNil(t, look("c", 5*time.Second).Start)
}

// Waiting for a place is not reported, unless it takes longer than places are held.
func TestFullIsReportedAfterAWhile(t *testing.T) {
	web := staleOf(webWorkload)
	s, a := situationOf(web), answersFor(web)
	s.free = 0
	d := a.decide(t, s)
	assert.Equal(t, testLimits.Poll, d.After)
	s.Now, s.history.holds = restartNow.Add(testLimits.PlaceFor-time.Second), d.holds
	d = a.decide(t, s)
	assert.Empty(t, d.Notify)
	assert.Equal(t, time.Second, d.After)
	s.Now, s.history.holds = restartNow.Add(testLimits.PlaceFor), d.holds
	d = a.decide(t, s)
	require.Len(t, d.Notify, 1)
	assert.Equal(t, holdFull, d.Notify[0].Hold)
	s.Now, s.history.holds = s.Now.Add(time.Hour), d.holds
	assert.Empty(t, a.decide(t, s).Notify, "once")
}

// Only the rotator's restarts get a place: a restart by the owner blocks its own namespace only,
// except after a change of leader.
func TestRestartByOwnerTakesNoPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		restarted time.Duration // before the leader began
		want      []string
	}{
		"before the leader":  {time.Minute, []string{"shop"}},
		"long before":        {testLimits.PlaceFor, nil},
		"after it":           {-time.Minute, nil},
		"in the far future":  {-24 * time.Hour, nil},
		"as the leader does": {0, []string{"shop"}},
	} {
		m, web := NewState(), staleOf(webWorkload)
		s, a := m.Situation("shop", testLimits, restartNow), answersFor(web)
		st := statusFor(webWorkload)
		st.restartedAt, st.progress.done = restartNow.Add(-tt.restarted), false
		a.workloads[webWorkload] = st
		s.Stale, s.Labels[web.Pod] = append(s.Stale, web), st.template
		m.Put("shop", a.decide(t, s), true)
		assert.Equal(t, tt.want, m.Totals().Places, name)
	}
}

// However many workloads are held, and for whatever reason, a decision is made in few rounds. Nothing is read
// twice, and at most twice as many workloads as are held.
func TestManyHeldWorkloads(t *testing.T) {
	const many = 300
	var stale []serving.StaleWorkload
	for i := range many {
		stale = append(stale, staleOf(pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprintf("w%03d", i)}))
	}
	for name, hold := range map[string]func(a *answers, workload string, st *WorkloadStatus){
		"by budgets": func(a *answers, workload string, _ *WorkloadStatus) {
			a.budgets = append(a.budgets, budget(workload, 0, workload))
		},
		"by Services": func(a *answers, workload string, _ *WorkloadStatus) { a.services[workload] = ServiceStatus{} },
		"by statuses": func(_ *answers, _ string, st *WorkloadStatus) { st.paused = true },
	} {
		for _, first := range []bool{true, false} {
			for _, held := range []int{1, 2, 3, 10, 100, many} {
				s, a := situationOf(stale...), answersFor(stale...)
				s.first = first
				for _, w := range stale[:held] {
					st := a.workloads[w.Workload]
					hold(a, w.Workload.Name, &st)
					a.workloads[w.Workload] = st
				}
				d := a.decide(t, s)
				if held < many {
					require.NotNil(t, d.Start, name)
					assert.Equal(t, stale[held], d.Start.Stale, name)
				} else {
					assert.Len(t, d.Held, many, name)
				}
				assert.LessOrEqual(t, a.rounds, 22, "%d held %s", held, name)
				assert.Len(t, slices.Compact(slices.Sorted(slices.Values(a.asked))), len(a.asked), "%s: read twice", name)
				if !first {
					assert.LessOrEqual(t, len(a.asked), 2*2*held+1, "%d held %s: workloads, Services, budgets", held, name)
				}
			}
		}
	}
}
