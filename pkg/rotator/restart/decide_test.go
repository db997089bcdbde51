package restart

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
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

var (
	restartNow  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	leafSince   = restartNow.Add(-time.Hour)
	testLimits  = Limits{Max: 3, Poll: 5 * time.Second, Retry: time.Minute, StuckAfter: 10 * time.Minute, Patience: 30 * time.Second, PlaceFor: 30 * time.Minute}
	webWorkload = pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	setWorkload = pods.Workload{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "uid-of-db"}
)

// staleOf is a stale workload with two pods that requests a restart.
func staleOf(w pods.Workload) serving.StaleWorkload {
	name := w.Name
	if name == "" {
		name = "bare"
	}
	return serving.StaleWorkload{
		Workload: w, Key: pods.SecretKey(name + "-tls"), Leaf: "new", Since: leafSince, OnRotate: api.OnRotateRestart,
		Pods: 2, Pod: name + "-1", PodUID: "uid-of-pod", Service: name, ServiceUID: "uid-of-service",
	}
}

// statusFor is the status of a workload that can be restarted.
func statusFor(w pods.Workload) WorkloadStatus {
	app := map[string]string{"app": w.Name}
	return WorkloadStatus{
		uid: w.UID, resourceVersion: "7", asks: true, selector: labels.SelectorFromSet(app), template: app, wanted: 2,
		progress: progress{done: true, counts: counts{1, 2, 2, 2}},
	}
}

// answers is a fake API server, which records the requests.
type answers struct {
	workloads map[pods.Workload]WorkloadStatus
	services  map[string]ServiceStatus
	budgets   []policyv1.PodDisruptionBudget
	asked     []string
	rounds    int // of requests
}

func answersFor(stale ...serving.StaleWorkload) *answers {
	a := &answers{workloads: map[pods.Workload]WorkloadStatus{}, services: map[string]ServiceStatus{}}
	for _, w := range stale {
		a.workloads[w.Workload] = statusFor(w.Workload)
		a.services[w.Service] = ServiceStatus{true, w.Leaf}
	}
	return a
}

// decide reads for a decision what it needs until it is made.
func (a *answers) decide(t require.TestingT, s Situation) Decision {
	if s.Workloads == nil {
		s.Workloads = map[pods.Workload]WorkloadStatus{}
	}
	if s.Services == nil {
		s.Services = map[string]ServiceStatus{}
	}
	for range 1000 {
		d := Decide(s)
		if len(d.Needs) == 0 {
			return d
		}
		a.rounds++
		for _, need := range d.Needs {
			a.read(&s, need)
		}
	}
	require.Fail(t, "a decision never knows enough")
	return Decision{}
}

func (a *answers) read(s *Situation, need Need) {
	switch {
	case !need.Workload.Bare():
		a.asked = append(a.asked, need.Workload.Name)
		st, there := a.workloads[need.Workload]
		st.Gone = st.Gone || !there
		s.Workloads[need.Workload] = st
	case need.Service != "":
		a.asked = append(a.asked, "Service "+need.Service)
		s.Services[need.Service] = a.services[need.Service]
	default:
		a.asked = append(a.asked, "budgets")
		s.Budgets = make([]Budget, 0, len(a.budgets))
		for i := range a.budgets {
			s.Budgets = append(s.Budgets, BudgetOf(&a.budgets[i]))
		}
	}
}

func situationOf(stale ...serving.StaleWorkload) Situation {
	s := Situation{Now: restartNow, Limits: testLimits, free: 3, Stale: stale, Labels: map[string]map[string]string{}}
	for _, w := range stale {
		s.Labels[w.Pod] = map[string]string{"app": w.Workload.Name}
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
func TestReads(t *testing.T) {
	web, db := staleOf(webWorkload), staleOf(setWorkload)
	db.Since = db.Since.Add(time.Second)
	for _, tt := range []struct {
		name   string
		change func(s *Situation, a *answers)
		want   []string
	}{
		{"the first can be restarted", func(*Situation, *answers) {}, []string{"web", "Service web", "budgets"}},
		{"a new leader looks at all", func(s *Situation, _ *answers) { s.first = true }, []string{"web", "db", "Service web", "budgets"}},
		{"no place", func(s *Situation, _ *answers) { s.free = 0 }, nil},
		{"restarts are off", func(s *Situation, _ *answers) { s.Limits.Max = 0 }, nil},
		{"another rolls", func(s *Situation, a *answers) {
			other := pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"}
			st := statusFor(other)
			st.progress.done = false
			a.workloads[other], s.rollouts = st, map[pods.Workload]rollout{other: {}}
		}, []string{"other"}},
		{"the first is held", func(_ *Situation, a *answers) {
			st := statusFor(webWorkload)
			st.paused = true
			a.workloads[webWorkload] = st
		}, []string{"web", "db", "Service db", "budgets"}},
		{"no request for a restart", func(s *Situation, _ *answers) {
			s.Stale = slices.Clone(s.Stale)
			s.Stale[0].OnRotate, s.Stale[1].OnRotate = api.OnRotateReload, api.OnRotateNone
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

func TestOneRolloutPerNamespace(t *testing.T) {
	web, db := staleOf(webWorkload), staleOf(setWorkload)
	second := web // another Secret of the same workload
	second.Key = pods.SecretKey("web-tls-2")
	s, a := situationOf(db, second, web), answersFor(web, db)
	d := a.decide(t, s)
	require.NotNil(t, d.Start)
	assert.Equal(t, web, d.Start.Stale)
	reasons := map[string]Hold{}
	for _, h := range d.Held {
		reasons[h.Stale.Key.String()] = h.Hold
	}
	assert.Equal(t, map[string]Hold{"web-tls-2": holdRolling, "db-tls": holdTurn}, reasons)
	assert.Equal(t, testLimits.Poll, d.After)

	// It is not done: the next waits.
	st := a.workloads[webWorkload]
	st.restartedAt, st.progress.done = restartNow, false
	a.workloads[webWorkload] = st
	s.rollouts, s.Workloads, s.Now = d.rollouts, nil, restartNow.Add(time.Minute)
	d = a.decide(t, s)
	assert.Nil(t, d.Start)
	assert.Empty(t, d.Stuck)
	assert.Equal(t, testLimits.Poll, d.After)

	// It got stuck: reported once, and still the next waits.
	s.rollouts, s.Workloads, s.Now = d.rollouts, nil, restartNow.Add(time.Minute+testLimits.StuckAfter)
	d = a.decide(t, s)
	require.Len(t, d.Stuck, 1)
	assert.Equal(t, webWorkload, d.Stuck[0].Workload)
	assert.Equal(t, "it is not progressing", d.Stuck[0].Message)
	assert.Nil(t, d.Start)
	behind := d.Held[slices.IndexFunc(d.Held, func(h Held) bool { return h.Stale.Key == pods.SecretKey("db-tls") })]
	assert.Equal(t, holdBehind, behind.Hold)
	assert.Equal(t, "Deployment web of the same namespace was restarted, and its rollout is not progressing", behind.Message)
	s.rollouts, s.Workloads, s.Now = d.rollouts, nil, s.Now.Add(time.Second)
	d = a.decide(t, s)
	assert.Empty(t, d.Stuck, "reported once")

	// It progresses: no place is free that is not its own.
	st.progress.counts.ready++
	a.workloads[webWorkload] = st
	s.rollouts, s.Workloads = d.rollouts, nil
	d = a.decide(t, s)
	assert.False(t, d.rollouts[webWorkload].stuck)
	assert.Nil(t, d.Start)

	// Its pods are new; the next.
	st.progress.done = true
	a.workloads[webWorkload] = st
	s.rollouts, s.Workloads, s.Stale = d.rollouts, nil, []serving.StaleWorkload{db}
	d = a.decide(t, s)
	require.NotNil(t, d.Start)
	assert.Equal(t, db, d.Start.Stale)
	assert.NotContains(t, d.rollouts, webWorkload)
}

// A rollout that its owner broke holds only its own workload.
func TestStuckRolloutOfOwner(t *testing.T) {
	web, db := staleOf(webWorkload), staleOf(setWorkload)
	s, a := situationOf(web, db), answersFor(web, db)
	st := a.workloads[webWorkload]
	st.progress.done, st.progress.exceeded = false, true
	a.workloads[webWorkload] = st
	d := a.decide(t, s)
	require.NotNil(t, d.Start)
	assert.Equal(t, db, d.Start.Stale)
	assert.Empty(t, d.Stuck)

	st.restartedAt = restartNow.Add(-time.Minute) // for this certificate
	a.workloads[webWorkload] = st
	d = a.decide(t, s)
	assert.Nil(t, d.Start)
	require.Len(t, d.Stuck, 1)
	assert.Equal(t, webWorkload, d.Stuck[0].Workload)
	assert.Equal(t, "it exceeded its progress deadline", d.Stuck[0].Message)

	st.paused = true
	a.workloads[webWorkload] = st
	d = a.decide(t, s)
	require.Len(t, d.Stuck, 1)
	assert.Equal(t, "it was paused in the meantime", d.Stuck[0].Message)
}

// A workload that was deleted and created again is a different one.
func TestRecreatedWorkloadHasNoRollout(t *testing.T) {
	st := statusFor(setWorkload)
	st.progress.done = false
	candidates := []serving.StaleWorkload{staleOf(setWorkload)}
	track := func(st WorkloadStatus) map[pods.Workload]rollout {
		return Situation{Now: restartNow, Limits: testLimits, Workloads: map[pods.Workload]WorkloadStatus{setWorkload: st}}.track(candidates, &Decision{})
	}
	assert.Contains(t, track(st), setWorkload)
	st.uid = "of-another"
	assert.Empty(t, track(st))
	candidates = []serving.StaleWorkload{staleOf(webWorkload)} // whose UID is not known
	assert.Contains(t, Situation{Now: restartNow, Limits: testLimits, Workloads: map[pods.Workload]WorkloadStatus{webWorkload: st}}.track(candidates, &Decision{}), webWorkload)
}

func TestRolloutDeadlines(t *testing.T) {
	at := func(minutes int) Situation {
		return Situation{Now: restartNow.Add(time.Duration(minutes) * time.Minute), Limits: testLimits}
	}
	st := statusFor(webWorkload)
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
	assert.True(t, r1.stuck, "its Deployment reports it")
	st.progress.exceeded, st.paused = false, true
	r1, _ = r.next(at(1), st)
	assert.True(t, r1.stuck, "it is paused")

	// An unconfirmed rollout is no longer ours a day after its restart.
	st.restartedAt = restartNow.Add(-takenOver)
	_, goesOn = rollout{unconfirmed: true}.next(at(0), st)
	assert.True(t, goesOn)
	_, goesOn = rollout{unconfirmed: true}.next(at(1), st)
	assert.False(t, goesOn)
	_, goesOn = rollout{}.next(at(1), st)
	assert.True(t, goesOn)
	st.restartedAt = time.Time{}

	unreadable := WorkloadStatus{Problem: "forbidden"}
	r9, goesOn = r.next(at(9), unreadable)
	assert.True(t, goesOn && !r9.stuck)
	r10, goesOn = r9.next(at(10), unreadable)
	assert.True(t, goesOn && r10.stuck, "a rollout that cannot be watched gives its place back")
	for _, over := range []WorkloadStatus{{Gone: true}, {deleting: true}, {progress: progress{done: true}}} {
		_, goesOn = r.next(at(1), over)
		assert.False(t, goesOn)
	}
}

// What a new leader makes of another leader's rollouts.
func TestTakingOver(t *testing.T) {
	st := statusFor(webWorkload)
	st.progress.done = false
	s := Situation{Now: restartNow, Limits: testLimits}
	for name, tt := range map[string]struct {
		restarted time.Time
		want      bool
	}{
		"just now": {restartNow, true}, "a day ago": {restartNow.Add(-takenOver), true},
		"long ago": {restartNow.Add(-takenOver - time.Second), false}, "never": {time.Time{}, false},
	} {
		st.restartedAt = tt.restarted
		r, goesOn := rollout{unconfirmed: true}.next(s, st)
		assert.Equal(t, tt.want, goesOn, name)
		assert.Equal(t, tt.want, r.ours, name)
		assert.False(t, r.unconfirmed, name)
	}
}

func TestHeldIsReportedOnce(t *testing.T) {
	web := staleOf(webWorkload)
	s, a := situationOf(web), answersFor(web)
	a.budgets = []policyv1.PodDisruptionBudget{budget("b", 0, "web")}
	d := a.decide(t, s)
	assert.Empty(t, d.Notify, "it may pass")
	assert.Equal(t, testLimits.Patience, d.After)

	s.Now, s.history.holds = s.Now.Add(testLimits.Patience), d.holds
	d = a.decide(t, s)
	require.Len(t, d.Notify, 1)
	assert.Equal(t, holdBudget, d.Notify[0].Hold)
	assert.Equal(t, testLimits.Retry, d.After)

	s.Now, s.history.holds = s.Now.Add(time.Hour), d.holds
	d = a.decide(t, s)
	assert.Empty(t, d.Notify)

	s.Stale[0].Leaf = "newest" // reported again for another certificate
	a.services["web"] = ServiceStatus{true, "newest"}
	before := maps.Clone(d.holds)
	s.history.holds = d.holds
	d = a.decide(t, s)
	assert.Empty(t, d.Notify)
	assert.Equal(t, before, s.history.holds, "the input is not changed")
	s.Now, s.history.holds = s.Now.Add(testLimits.Patience), d.holds
	assert.Len(t, a.decide(t, s).Notify, 1)
}

// A hold that ends by itself is never reported.
func TestPassingHoldsAreNotReported(t *testing.T) {
	s := Situation{Now: restartNow, Limits: testLimits}
	for _, h := range []Hold{holdRolling, holdDeleting, holdNoPods} {
		d := Decision{holds: map[holdKey]holdState{}}
		d.hold(s, Held{Stale: staleOf(webWorkload), Hold: h})
		assert.Len(t, d.Held, 1)
		assert.Empty(t, d.Notify, h)
	}
}

// The earliest reason decides: a rollout, a stuck one, a pending report, a hold.
func TestAfter(t *testing.T) {
	s := Situation{Now: restartNow, Limits: testLimits}
	goesOn, stuck := map[pods.Workload]rollout{webWorkload: {}}, map[pods.Workload]rollout{webWorkload: {stuck: true}}
	both := map[pods.Workload]rollout{webWorkload: {stuck: true}, setWorkload: {}}
	for name, tt := range map[string]struct {
		rollouts map[pods.Workload]rollout
		hold     Hold
		notified bool
		want     time.Duration
	}{
		"nothing":                         {want: 0},
		"a rollout":                       {rollouts: goesOn, want: testLimits.Poll},
		"a stuck one":                     {rollouts: stuck, want: testLimits.Retry},
		"both":                            {rollouts: both, want: testLimits.Poll},
		"for people, to be reported":      {hold: holdOff, want: testLimits.Patience},
		"for people, reported":            {hold: holdOff, notified: true, want: 0},
		"for the next place":              {hold: holdTurn, notified: true, want: testLimits.Poll},
		"it passes, beside a stuck one":   {hold: holdNoPods, rollouts: stuck, want: testLimits.Retry},
		"to be reported beside a rollout": {hold: holdOff, rollouts: goesOn, want: testLimits.Poll},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decision{rollouts: tt.rollouts}
			if tt.hold != "" {
				h := Held{Stale: staleOf(webWorkload), Hold: tt.hold}
				d.Held = []Held{h}
				d.holds = map[holdKey]holdState{{KeyOf(h.Stale), h.Hold}: {since: restartNow, notified: tt.notified}}
			}
			assert.Equal(t, tt.want, s.nextLook(d))
		})
	}
}
