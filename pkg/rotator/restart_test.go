package rotator

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/servingcert/servingcert/pkg/api"
)

var (
	restartNow  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	leafSince   = restartNow.Add(-time.Hour)
	testLimits  = restartLimits{max: 3, poll: 5 * time.Second, retry: time.Minute, stuckAfter: 10 * time.Minute, patience: 30 * time.Second}
	webWorkload = Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	setWorkload = Workload{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "uid-of-db"}
)

// staleOf is two pods of the workload that serve an old certificate and ask for a
// restart.
func staleOf(w Workload) staleWorkload {
	name := w.Name
	if name == "" {
		name = "bare"
	}
	return staleWorkload{
		Workload: w, Secret: name + "-tls", Leaf: "new", Since: leafSince, OnRotate: api.OnRotateRestart,
		Pods: 2, Pod: name + "-1", PodUID: "uid-of-pod", Service: name, ServiceUID: "uid-of-service",
	}
}

// standingFor is that of a workload that can be restarted.
func standingFor(w Workload) standing {
	app := map[string]string{"app": w.Name}
	return standing{
		uid: w.UID, resourceVersion: "7", asks: true, selector: labels.SelectorFromSet(app), template: app, wanted: 2,
		progress: progress{done: true, counts: counts{1, 2, 2, 2}},
	}
}

// answers is an API server, and what was asked of it.
type answers struct {
	standings map[Workload]standing
	services  map[string]serviceStanding
	budgets   []policyv1.PodDisruptionBudget
	asked     []string
}

func answersFor(stale ...staleWorkload) *answers {
	a := &answers{standings: map[Workload]standing{}, services: map[string]serviceStanding{}}
	for _, w := range stale {
		a.standings[w.Workload] = standingFor(w.Workload)
		a.services[w.Service] = serviceStanding{true, w.Leaf}
	}
	return a
}

// decide answers what a decision has to know until it is made.
func (a *answers) decide(t require.TestingT, s restartSituation) restartDecision {
	if s.standings == nil {
		s.standings = map[Workload]standing{}
	}
	if s.services == nil {
		s.services = map[string]serviceStanding{}
	}
	for range 1000 {
		d := decideRestarts(s)
		switch {
		case d.need.none():
			return d
		case d.need.workload != nil:
			a.asked = append(a.asked, d.need.workload.Name)
			st, there := a.standings[*d.need.workload]
			st.gone = st.gone || !there
			s.standings[*d.need.workload] = st
		case d.need.service != "":
			a.asked = append(a.asked, "Service "+d.need.service)
			s.services[d.need.service] = a.services[d.need.service]
		default:
			a.asked = append(a.asked, "budgets")
			s.budgets = append([]policyv1.PodDisruptionBudget{}, a.budgets...)
		}
	}
	require.Fail(t, "a decision never knows enough")
	return restartDecision{}
}

func situationOf(stale ...staleWorkload) restartSituation {
	s := restartSituation{now: restartNow, limits: testLimits, free: 3, stale: stale, labels: map[string]map[string]string{}}
	for _, w := range stale {
		s.labels[w.Pod] = map[string]string{"app": w.Workload.Name}
	}
	return s
}

func budget(name string, allowed int32, app string) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: 1, ExpectedPods: 2, DesiredHealthy: 1},
	}
}

// Only what a decision needs is read, and budgets last.
func TestWhatIsRead(t *testing.T) {
	web, db := staleOf(webWorkload), staleOf(setWorkload)
	db.Since = db.Since.Add(time.Second)
	for _, tt := range []struct {
		name   string
		change func(s *restartSituation, a *answers)
		want   []string
	}{
		{"the first can be restarted", func(*restartSituation, *answers) {}, []string{"web", "Service web", "budgets"}},
		{"a new leader looks at all", func(s *restartSituation, _ *answers) { s.first = true }, []string{"web", "db", "Service web", "budgets"}},
		{"no place", func(s *restartSituation, _ *answers) { s.free = 0 }, nil},
		{"restarts are off", func(s *restartSituation, _ *answers) { s.limits.max = 0 }, nil},
		{"another rolls", func(s *restartSituation, a *answers) {
			other := Workload{"apps/v1", "Deployment", "other", ""}
			st := standingFor(other)
			st.progress.done = false
			a.standings[other], s.rollouts = st, map[Workload]rollout{other: {}}
		}, []string{"other"}},
		{"the first is held", func(_ *restartSituation, a *answers) {
			st := standingFor(webWorkload)
			st.paused = true
			a.standings[webWorkload] = st
		}, []string{"web", "db", "Service db", "budgets"}},
		{"nobody asks for it", func(s *restartSituation, _ *answers) {
			s.stale = slices.Clone(s.stale)
			s.stale[0].OnRotate, s.stale[1].OnRotate = api.OnRotateReload, api.OnRotateNone
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, a := situationOf(db, web), answersFor(web, db)
			tt.change(&s, a)
			a.decide(t, s)
			assert.Equal(t, tt.want, a.asked)
		})
	}
}

func TestOneOfANamespaceAtATime(t *testing.T) {
	web, db := staleOf(webWorkload), staleOf(setWorkload)
	second := web // another Secret of the same workload
	second.Secret = "web-tls-2"
	s, a := situationOf(db, second, web), answersFor(web, db)
	d := a.decide(t, s)
	require.NotNil(t, d.start)
	assert.Equal(t, web, *d.start)
	reasons := map[string]hold{}
	for _, h := range d.holds {
		reasons[h.stale.Secret] = h.hold
	}
	assert.Equal(t, map[string]hold{"web-tls-2": holdRolling, "db-tls": holdTurn}, reasons)
	assert.Equal(t, testLimits.poll, d.after)

	// It is not done: the next waits.
	st := a.standings[webWorkload]
	st.restartedAt, st.progress.done = restartNow, false
	a.standings[webWorkload] = st
	s.rollouts, s.standings, s.now = d.rollouts, nil, restartNow.Add(time.Minute)
	d = a.decide(t, s)
	assert.Nil(t, d.start)
	assert.Empty(t, d.stuck)
	assert.Equal(t, testLimits.poll, d.after)

	// It got stuck: told once, and still the next waits.
	s.rollouts, s.standings, s.now = d.rollouts, nil, restartNow.Add(time.Minute+testLimits.stuckAfter)
	d = a.decide(t, s)
	assert.Equal(t, []Workload{webWorkload}, d.stuck)
	assert.Nil(t, d.start)
	behind := d.holds[slices.IndexFunc(d.holds, func(h heldWorkload) bool { return h.stale.Secret == "db-tls" })]
	assert.Equal(t, holdBehind, behind.hold)
	assert.Equal(t, "Deployment web of its namespace was restarted, and its rollout does not get on", behind.why)
	s.rollouts, s.standings, s.now = d.rollouts, nil, s.now.Add(time.Second)
	d = a.decide(t, s)
	assert.Empty(t, d.stuck, "told once")

	// It gets on: no place is free that is not its own.
	st.progress.counts.ready++
	a.standings[webWorkload] = st
	s.rollouts, s.standings = d.rollouts, nil
	d = a.decide(t, s)
	assert.False(t, d.rollouts[webWorkload].stuck)
	assert.Nil(t, d.start)

	// Its pods are new; the next.
	st.progress.done = true
	a.standings[webWorkload] = st
	s.rollouts, s.standings, s.stale = d.rollouts, nil, []staleWorkload{db}
	d = a.decide(t, s)
	require.NotNil(t, d.start)
	assert.Equal(t, db, *d.start)
	assert.NotContains(t, d.rollouts, webWorkload)
}

// A rollout that somebody else broke holds nobody but its own workload.
func TestABrokenRolloutOfSomebodyElse(t *testing.T) {
	web, db := staleOf(webWorkload), staleOf(setWorkload)
	s, a := situationOf(web, db), answersFor(web, db)
	st := a.standings[webWorkload]
	st.progress.done, st.progress.exceeded = false, true
	a.standings[webWorkload] = st
	d := a.decide(t, s)
	require.NotNil(t, d.start)
	assert.Equal(t, db, *d.start)
	assert.Empty(t, d.stuck)

	st.restartedAt = restartNow.Add(-time.Minute) // for this certificate
	a.standings[webWorkload] = st
	d = a.decide(t, s)
	assert.Nil(t, d.start)
	assert.Equal(t, []Workload{webWorkload}, d.stuck)
}

func TestPatienceOfARollout(t *testing.T) {
	at := func(minutes int) restartSituation {
		return restartSituation{now: restartNow.Add(time.Duration(minutes) * time.Minute), limits: testLimits}
	}
	st := standingFor(webWorkload)
	st.progress.done = false
	r, goesOn := rollout{}.next(at(0), st)
	require.True(t, goesOn)
	r9, _ := r.next(at(9), st)
	assert.False(t, r9.stuck)
	r10, _ := r9.next(at(10), st)
	assert.True(t, r10.stuck)
	st.progress.deadline = time.Hour
	r59, _ := r9.next(at(59), st)
	assert.False(t, r59.stuck, "the Deployment has more patience")
	r60, _ := r59.next(at(60), st)
	assert.True(t, r60.stuck)
	st.progress.exceeded = true
	r1, _ := r.next(at(1), st)
	assert.True(t, r1.stuck, "the Deployment's controller says so")
	st.progress.exceeded, st.paused = false, true
	r1, _ = r.next(at(1), st)
	assert.True(t, r1.stuck, "nothing happens to it before somebody resumes it")

	unreadable := standing{problem: "forbidden"}
	r9, goesOn = r.next(at(9), unreadable)
	assert.True(t, goesOn && !r9.stuck)
	r10, goesOn = r9.next(at(10), unreadable)
	assert.True(t, goesOn && r10.stuck, "a rollout that cannot be watched gives its place back")
	for _, over := range []standing{{gone: true}, {deleting: true}, {progress: progress{done: true}}} {
		_, goesOn = r.next(at(1), over)
		assert.False(t, goesOn)
	}
}

// What a new leader sees of another's rollouts.
func TestTakingOver(t *testing.T) {
	st := standingFor(webWorkload)
	st.progress.done = false
	s := restartSituation{now: restartNow, limits: testLimits}
	for name, tt := range map[string]struct {
		restarted time.Time
		want      bool
	}{
		"just now": {restartNow, true}, "a day ago": {restartNow.Add(-takenOver), true},
		"long ago": {restartNow.Add(-takenOver - time.Second), false}, "never": {time.Time{}, false},
	} {
		st.restartedAt = tt.restarted
		r, goesOn := rollout{doubt: true}.next(s, st)
		assert.Equal(t, tt.want, goesOn, name)
		assert.Equal(t, tt.want, r.ours, name)
		assert.False(t, r.doubt, name)
	}
}

func TestHeldIsToldOnce(t *testing.T) {
	web := staleOf(webWorkload)
	s, a := situationOf(web), answersFor(web)
	a.budgets = []policyv1.PodDisruptionBudget{budget("b", 0, "web")}
	d := a.decide(t, s)
	assert.Empty(t, d.tell, "it may pass")
	assert.Equal(t, testLimits.patience, d.after)

	s.now, s.memory.holds = s.now.Add(testLimits.patience), d.records
	d = a.decide(t, s)
	require.Len(t, d.tell, 1)
	assert.Equal(t, holdBudget, d.tell[0].hold)
	assert.Equal(t, testLimits.retry, d.after)

	s.now, s.memory.holds = s.now.Add(time.Hour), d.records
	d = a.decide(t, s)
	assert.Empty(t, d.tell)

	s.stale[0].Leaf = "newest" // told of again for another certificate
	a.services["web"] = serviceStanding{true, "newest"}
	before := maps.Clone(d.records)
	s.memory.holds = d.records
	d = a.decide(t, s)
	assert.Empty(t, d.tell)
	assert.Equal(t, before, s.memory.holds, "what is given is not changed")
	s.now, s.memory.holds = s.now.Add(testLimits.patience), d.records
	assert.Len(t, a.decide(t, s).tell, 1)
}
