package correct

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// TestVerdicts: what becomes of a fact.
func TestVerdicts(t *testing.T) {
	made := func(message string) rotatortest.Change { return rotatortest.All(status(false), crashes(message)) }
	without := func(change rotatortest.Change) rotatortest.Change { return rotatortest.All(status(true), change) }
	const withheld, suspected, cleared = state.VerdictWithheld, state.VerdictSuspected, state.VerdictCleared
	type facts = state.Flags
	for _, tt := range []struct {
		name  string
		tells bool // the rotator only tells
		facts facts
		pods  []rotatortest.Change
		want  facts
		told  state.Verdict // by a new finding
	}{
		{"nothing", false, nil, nil, nil, ""},
		{"named", false, nil, []rotatortest.Change{made(unknownFlag)}, facts{fact(withheld, 0, false)}, withheld},
		{"silent: on trial", false, nil, []rotatortest.Change{made("")}, facts{fact(withheld, 0, true)}, withheld},
		{"the pod that says more", false, nil, []rotatortest.Change{made(""), made(unknownFlag)}, facts{fact(withheld, 0, false)}, withheld},
		{"it is only told", true, nil, []rotatortest.Change{made(unknownFlag)}, facts{fact(suspected, 0, false)}, suspected},
		{"it was only told", true, facts{fact(suspected, time.Hour, false)}, []rotatortest.Change{made(unknownFlag)}, facts{fact(suspected, time.Hour, false)}, ""},

		{"withheld, and no pod", false, facts{fact(withheld, 1000*time.Hour, true)}, nil, facts{fact(withheld, 1000*time.Hour, true)}, ""},
		{"withheld, and pods serve without", false, facts{fact(withheld, time.Hour, true)}, []rotatortest.Change{without(nil)}, facts{fact(withheld, time.Hour, true)}, ""},
		{"withheld, and made all the same", false, facts{fact(withheld, time.Hour, true)}, []rotatortest.Change{made("")}, facts{fact(withheld, time.Hour, true)}, ""},
		{"withheld, and then named", false, facts{fact(withheld, time.Hour, true)}, []rotatortest.Change{made(unknownFlag)}, facts{fact(withheld, time.Hour, false)}, ""},
		{"withheld, and fails without", false, facts{fact(withheld, time.Hour, true)}, []rotatortest.Change{without(crashes(otherText))}, facts{fact(cleared, 0, false)}, cleared},
		{"withheld, and failed without once", false, facts{fact(withheld, time.Hour, true)}, []rotatortest.Change{without(rotatortest.All(crashes(""), restarts(0)))}, facts{fact(withheld, time.Hour, true)}, ""},
		{"withheld because it was named, and fails without", false, facts{fact(withheld, time.Hour, false)}, []rotatortest.Change{without(crashes(otherText))}, facts{fact(withheld, time.Hour, false)}, ""},
		{"withheld, named now, and fails without", false, facts{fact(withheld, time.Hour, true)}, []rotatortest.Change{without(crashes("")), made(unknownFlag)}, facts{fact(withheld, time.Hour, false)}, ""},
		{"withheld, and it is only told now", true, facts{fact(withheld, time.Hour, true)}, nil, facts{fact(suspected, 0, true)}, ""},

		{"suspected, and withheld now", false, facts{fact(suspected, time.Hour, false)}, []rotatortest.Change{made(unknownFlag)}, facts{fact(withheld, 0, false)}, withheld},
		{"suspected, and nothing crashes", false, facts{fact(suspected, time.Hour, false)}, nil, nil, ""},

		{"cleared, and crashes", false, facts{fact(cleared, amnesty-time.Second, false)}, []rotatortest.Change{made("")}, facts{fact(cleared, amnesty-time.Second, false)}, ""},
		{"cleared, and names it", false, facts{fact(cleared, amnesty-time.Second, false)}, []rotatortest.Change{made(unknownFlag)}, facts{fact(cleared, amnesty-time.Second, false)}, ""},
		{"cleared for long, and crashes", false, facts{fact(cleared, amnesty, false)}, []rotatortest.Change{made("")}, facts{fact(withheld, 0, true)}, withheld},
		{"cleared for long, and nothing crashes", false, facts{fact(cleared, 100*amnesty, false)}, nil, facts{fact(cleared, 100*amnesty, false)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Situation{Now: noon, Enabled: !tt.tells, Services: []Service{service("web", tt.facts...)}}
			for i, change := range tt.pods {
				s.Pods = append(s.Pods, pod(fmt.Sprint("web-", i), "web", change))
			}
			d := Decide(s)
			assert.Equal(t, tt.want, factsOf(s, d))
			var told state.Verdict
			for _, c := range d.Changes {
				for _, f := range c.Findings {
					told = f.Verdict
				}
			}
			assert.Equal(t, tt.told, told)
			assert.Empty(t, d.Told)
			again := written(s, d)
			d = Decide(again)
			assert.Empty(t, d.Changes, "what is written is decided again")
			assert.Empty(t, d.Told)
		})
	}
}

// TestWhichPodsAreDeleted: of an attempt that is withheld.
func TestWhichPodsAreDeleted(t *testing.T) {
	made := func(change rotatortest.Change) rotatortest.Change { return rotatortest.All(status(false), change) }
	old := fact(state.VerdictWithheld, time.Minute, true)
	for _, tt := range []struct {
		name   string
		tells  bool
		fact   state.Attempt
		unseen bool
		pod    rotatortest.Change
		want   bool
		after  time.Duration
	}{
		{"it crashes", false, old, false, made(crashes("")), true, 0},
		{"it names the flag", false, old, false, made(crashes(unknownFlag)), true, 0},
		{"another cause", false, old, false, made(crashes(otherText)), false, 0},
		{"killed", false, old, false, made(crashes("", code(137))), false, 0},
		{"it was not restarted yet", false, old, false, made(rotatortest.All(crashes(""), restarts(0))), false, 0},
		{"it has just ended, and the kubelet does not wait yet", false, old, false, made(inState(corev1.ContainerState{Terminated: ended("")}, nil)), false, 0},
		{"it runs", false, old, false, made(inState(running(time.Second), ended(""))), false, 0},
		{"it is ready", false, old, false, made(nil), false, 0},
		{"it is being deleted", false, old, false, made(rotatortest.All(crashes(""), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })), false, 0},
		{"the attempt was withheld", false, fact(state.VerdictWithheld, time.Minute, false), false, rotatortest.All(status(true), crashes("")), false, 0},
		{"the cache does not show it yet", false, old, true, made(crashes("")), false, settle / 2},
		{"it was written just now", false, fact(state.VerdictWithheld, settle-time.Second, true), false, made(crashes("")), false, time.Second},
		{"it was written a moment ago", false, fact(state.VerdictWithheld, settle, true), false, made(crashes("")), true, 0},
		{"it is only told", true, old, false, made(crashes("")), false, 0},
		{"suspected", true, fact(state.VerdictSuspected, time.Minute, false), false, made(crashes("")), false, 0},
		{"cleared", false, fact(state.VerdictCleared, time.Minute, false), false, made(crashes("")), false, amnesty - time.Minute},
		{"not injected", false, old, false, made(rotatortest.All(crashes(""), rotatortest.Label(api.LabelInjected, "false"))), false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svc := service("web", tt.fact)
			if tt.unseen {
				svc.Seen = nil
			}
			s := Situation{Now: noon, Enabled: !tt.tells, Services: []Service{svc}, Pods: []*pods.Facts{pod("web-1", "web", tt.pod), pod("api-1", "api", crashes(""))}}
			d := Decide(s)
			var want []string
			if tt.want {
				want = []string{"web-1"}
			}
			assert.Equal(t, want, deleted(d))
			assert.Equal(t, tt.after, d.After)

			s.Pods = []*pods.Facts{pod("web-1", "", tt.pod)}
			assert.Empty(t, Decide(s).Delete, "nobody makes a bare pod anew")
		})
	}
}

// TestFromACrashToAPodThatServes follows one workload.
func TestFromACrashToAPodThatServes(t *testing.T) {
	s := Situation{Now: noon.Add(300 * time.Millisecond), Enabled: true, Services: []Service{service("web")}, Pods: []*pods.Facts{
		pod("web-1", "web", status(false), crashes(unknownFlag)), pod("web-2", "web", status(false), crashes(unknownFlag)), pod("bare", "", status(false), crashes(unknownFlag)),
	}}
	d := Decide(s)
	require.Len(t, d.Changes, 1)
	assert.Equal(t, []Finding{{
		Verdict: state.VerdictWithheld, Attempt: attempt, Container: "app", Pod: "bare", PodUID: "uid-of-bare", Service: s.Services[0].Service,
		ExitCode: 2, Evidence: EvidenceNamed, Line: "unknown flag: --tls-cert-file",
	}}, d.Changes[0].Findings)
	assert.Empty(t, d.Delete)
	assert.Equal(t, 1, d.Withheld)
	assert.Equal(t, 1700*time.Millisecond, d.After)

	s = written(s, d)
	s.Now = s.Now.Add(d.After)
	d = Decide(s)
	assert.Equal(t, []string{"web-1", "web-2"}, deleted(d))
	require.Len(t, d.Told, 1, "the bare pod was reported, and the Deployment was not")
	assert.Equal(t, "web", d.Told[0].Workload.Name)

	s = written(s, d)
	s.Pods = append(s.Pods, pod("web-3", "web", status(true)), pod("other", "", status(false), crashes(unknownFlag)))
	d = Decide(s)
	assert.Empty(t, d.Delete)
	require.Len(t, d.Told, 1)
	assert.Equal(t, "other", d.Told[0].Pod)
	assert.Empty(t, Decide(written(s, d)).Told)
}

func TestOnWhichServiceAFactIs(t *testing.T) {
	older := func(name, secret string, age time.Duration) Service {
		svc := service(name)
		svc.Annotations[api.AnnotationSecretName] = secret
		svc.CreationTimestamp = metav1.NewTime(noon.Add(-age))
		return svc
	}
	notAsking := service("web")
	delete(notAsking.Annotations, api.AnnotationSecretName)
	of := func(service string) rotatortest.Change {
		return status(false, func(s *api.InjectionStatus) { s.Service = service })
	}
	for _, tt := range []struct {
		name     string
		status   rotatortest.Change
		services []Service
		want     string // empty for none
	}{
		{"the one in the status", of("web"), []Service{older("a", "web-tls", time.Hour), older("web", "other", 0)}, "web"},
		{"the oldest of the Secret, if the status names none", of(""), []Service{older("b", "web-tls", 0), older("a", "web-tls", time.Hour), older("c", "other", 2*time.Hour)}, "a"},
		{"the oldest of the Secret, if the one in the status is gone", of("gone"), []Service{older("b", "web-tls", 0)}, "b"},
		{"the oldest of the Secret, if the one in the status asks for nothing", of("web"), []Service{notAsking, older("b", "web-tls", 0)}, "b"},
		{"none asks for the Secret", of(""), []Service{older("c", "other", 0)}, ""},
		{"none", of("web"), nil, ""},
		{"a name that is none", of("../web"), []Service{older("b", "other", 0)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Situation{Now: noon, Enabled: true, Services: tt.services, Pods: []*pods.Facts{pod("web-1", "web", tt.status, crashes(unknownFlag)), pod("web-2", "web", tt.status, crashes(unknownFlag))}}
			d := Decide(s)
			if tt.want != "" {
				require.Len(t, d.Changes, 1)
				assert.Equal(t, tt.want, d.Changes[0].Service.Name)
				assert.Empty(t, d.Told)
				return
			}
			assert.Empty(t, d.Changes)
			require.Len(t, d.Told, 1, "of the workload, once")
			assert.Equal(t, state.VerdictSuspected, d.Told[0].Verdict)
			assert.Nil(t, d.Told[0].Service)
			again := written(s, d)
			assert.Empty(t, Decide(again).Told)
			again.Pods = []*pods.Facts{pod("web-1", "web", tt.status, inState(running(time.Second), ended("")))}
			again.Memory = Decide(again).Memory
			assert.Empty(t, Decide(written(s, Decide(again))).Told, "while it runs for a moment, it is remembered")
			again.Pods = nil
			assert.Empty(t, Decide(again).Memory)
		})
	}
}

func TestAServiceThatAsksNoMoreSaysNothing(t *testing.T) {
	svc := service("web", fact(state.VerdictWithheld, time.Hour, false))
	delete(svc.Annotations, api.AnnotationSecretName)
	d := Decide(Situation{Now: noon, Enabled: true, Services: []Service{svc}})
	assert.Equal(t, []Change{{Service: svc.Service}}, d.Changes)
	assert.Zero(t, d.Withheld)

	silent := service("web")
	delete(silent.Annotations, api.AnnotationSecretName)
	assert.Empty(t, Decide(Situation{Now: noon, Enabled: true, Services: []Service{silent}}).Changes)

	malformed := service("web")
	malformed.Status.Conditions = []metav1.Condition{{Type: api.ConditionFlags, Message: "x"}}
	assert.Equal(t, []Change{{Service: malformed.Service}}, Decide(Situation{Now: noon, Enabled: true, Services: []Service{malformed}}).Changes)
}

func TestFactsAreBounded(t *testing.T) {
	full := func(age func(i int) time.Duration) (facts state.Flags) {
		for i := range state.MaxAttempts {
			facts = append(facts, state.Attempt{
				Attempt: fmt.Sprintf("%016x", i), Verdict: state.VerdictWithheld, Workload: "Deployment/x", Container: "c", Since: noon.Add(-age(i)),
			})
		}
		return facts
	}
	dayOld := func(i int) time.Duration { return keep + time.Duration(1+(i+7)%state.MaxAttempts)*time.Minute }
	crashing := pod("web-1", "web", status(false), crashes(unknownFlag))
	decide := func(facts state.Flags, others ...*pods.Facts) (state.Flags, Decision) {
		s := Situation{Now: noon, Enabled: true, Services: []Service{service("web", facts...)}, Pods: append(others, crashing)}
		d := Decide(s)
		assert.Empty(t, Decide(written(s, d)).Changes)
		assert.Empty(t, Decide(written(s, d)).Told)
		return factsOf(s, d), d
	}
	has := func(facts state.Flags, i int) bool { return facts.Withholds(fmt.Sprintf("%016x", i)) }
	using := func(i int, withheld bool) *pods.Facts {
		return pod(fmt.Sprint("other-", i), "other", status(withheld, func(s *api.InjectionStatus) {
			for _, attempts := range []map[string]string{s.Attempts, s.Withheld} {
				if attempts != nil {
					attempts["app"] = fmt.Sprintf("%016x", i)
				}
			}
		}))
	}

	facts, _ := decide(full(dayOld))
	assert.Len(t, facts, state.MaxAttempts)
	assert.True(t, facts.Withholds(attempt))
	assert.False(t, has(facts, 24), "the oldest goes")

	facts, _ = decide(full(dayOld), using(24, true), using(23, false))
	assert.True(t, has(facts, 24) && has(facts, 23), "pods have it")
	assert.False(t, has(facts, 22), "the oldest of the others goes")

	facts, d := decide(full(func(int) time.Duration { return keep - time.Minute }))
	assert.False(t, facts.Withholds(attempt), "all are young")
	require.Len(t, d.Told, 1)
	assert.Equal(t, state.VerdictSuspected, d.Told[0].Verdict)
}

func TestWhatConditionsSay(t *testing.T) {
	other := func(verdict state.Verdict, workload string, i int) state.Attempt {
		return state.Attempt{Attempt: fmt.Sprintf("%016x", i), Verdict: verdict, Workload: workload, Container: "c", Since: noon}
	}
	var many state.Flags
	for i := range 8 {
		many = append(many, other(state.VerdictWithheld, fmt.Sprint("Deployment/d", i), i))
	}
	for _, tt := range []struct {
		facts  state.Flags
		status metav1.ConditionStatus
		reason string
		text   string
	}{
		{state.Flags{fact(state.VerdictWithheld, 0, false)}, "False", "FlagsWithheld",
			"Deployment web, container app, failed when it was given unrequested flags: new pods do not get them; say servingcert.dev/mode: args or servingcert.dev/cert-flag if they are right"},
		{state.Flags{fact(state.VerdictWithheld, 0, false), other(state.VerdictWithheld, "StatefulSet/db", 1), other(state.VerdictCleared, "Deployment/x", 2)}, "False", "FlagsWithheld",
			"Deployment web, container app, StatefulSet db, container c, failed when they were given unrequested flags: "},
		{state.Flags{fact(state.VerdictSuspected, 0, false), other(state.VerdictCleared, "Deployment/x", 2)}, "False", "FlagsSuspected",
			"Deployment web, container app, failed when it was given unrequested flags, and the rotator takes no action (--correct-flags=false): say servingcert.dev/mode: env if they are wrong"},
		{state.Flags{fact(state.VerdictCleared, 0, false)}, "True", "FlagsKept",
			"Deployment web, container app, failed when it was given unrequested flags, and without them too: new pods get them"},
		{many, "False", "FlagsWithheld", "Deployment d4, container c, and 3 more failed when they were given unrequested flags"},
	} {
		c := condition(tt.facts)
		assert.Equal(t, tt.status, c.Status)
		assert.Equal(t, tt.reason, c.Reason)
		assert.Contains(t, c.Message, tt.text)
		assert.Equal(t, tt.facts, state.FlagsOf(&corev1.Service{Status: corev1.ServiceStatus{Conditions: c.Both()}}))
	}
	assert.Nil(t, condition(nil))
}
