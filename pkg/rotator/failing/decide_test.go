package failing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/rotatortest"
)

var noon = rotatortest.Noon

// pod is a pod of a Deployment, or a bare one, with the injected container app. Its containers
// could start that long ago. It has never been ready.
func pod(name, workload string, age time.Duration, changes ...rotatortest.Change) *pods.Facts {
	status := api.InjectionStatus{Secret: "web-tls", Service: "web", Containers: map[string]string{"app": "files,env,flags"}}
	return pods.FactsOf(rotatortest.ReadyPod(name, workload, func(p *corev1.Pod) {
		p.Labels[api.LabelInjected], p.Annotations[api.AnnotationStatus] = "true", status.Format()
		begun := metav1.NewTime(noon.Add(-age))
		p.Status.StartTime = &begun
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: begun}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "app", Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begun}},
		}}
	}, rotatortest.All(changes...)))
}

// exits sets the state of container app after restarts.
func exits(restarts, code int32, message string) rotatortest.Change {
	return func(p *corev1.Pod) {
		s := &p.Status.ContainerStatuses[0]
		s.RestartCount, s.State = restarts, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Message: message, StartedAt: metav1.NewTime(noon), FinishedAt: metav1.NewTime(noon)}
	}
}

// ready sets container app ready, started that long ago.
func ready(ago time.Duration) rotatortest.Change {
	return func(p *corev1.Pod) {
		s := &p.Status.ContainerStatuses[0]
		s.Ready, s.State = true, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-ago))}}
		p.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	}
}

func onlyFiles(p *corev1.Pod) {
	p.Annotations[api.AnnotationStatus] = api.InjectionStatus{Secret: "web-tls", Service: "web", Containers: map[string]string{"app": "files,env"}}.Format()
}

func wasReady(p *corev1.Pod) {
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon)
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) }

const (
	byMode  = "; if the injection is the cause, annotate the pod template servingcert.dev/mode: env, which omits flags, variables of the program and HTTPS probes"
	byLabel = "; if the injection is the cause, label the pod template servingcert.dev/inject: disabled, which omits everything"
)

// TestFailures: the condition for a Deployment's only pod, and when to decide again.
func TestFailures(t *testing.T) {
	const minute = time.Minute
	for _, tt := range []struct {
		name  string
		pod   *pods.Facts
		want  string // empty for nothing
		after time.Duration
	}{
		{"has just been started", pod("web-1", "web", 0), "", minute},
		{"was started nearly a minute ago", pod("web-1", "web", minute-time.Second), "", time.Second},
		{"is not ready for a minute", pod("web-1", "web", minute), "container app of pod web-1 was not ready within a minute" + byMode, 0},
		{"was given nothing but files", pod("web-1", "web", minute, onlyFiles), "container app of pod web-1 was not ready within a minute" + byLabel, 0},
		{"was ready before", pod("web-1", "web", time.Hour, wasReady), "", 0},
		{"is ready", pod("web-1", "web", time.Hour, ready(time.Hour)), "", 0},
		{"is being deleted", pod("web-1", "web", time.Hour, exits(9, 2, ""), deleted), "", 0},
		{"has exited twice", pod("web-1", "web", minute-time.Second, exits(2, 2, "no")), "", time.Second},
		{"has exited twice in a minute", pod("web-1", "web", minute, exits(2, 2, "no")), `container app of pod web-1 was not ready within a minute, and exited with code 2; its termination message ends with "no"` + byMode, 0},
		{"has exited three times", pod("web-1", "web", 0, exits(3, 2, "starting\nno\n")), `container app of pod web-1 exited with code 2 and was restarted 3 times; its termination message ends with "starting no"` + byMode, 0},
		{"without a message", pod("web-1", "web", 0, exits(9, 137, "")), "container app of pod web-1 exited with code 137 and was restarted 9 times, without a termination message" + byMode, 0},
		{"exits although it was ready once", pod("web-1", "web", time.Hour, exits(3, 2, ""), wasReady), "container app of pod web-1 exited with code 2 and was restarted 3 times, without a termination message" + byMode, 0},
		{"ends well again and again", pod("web-1", "web", 0, exits(9, 0, "")), "", minute},
		{"is ready for a moment", pod("web-1", "web", time.Hour, exits(3, 2, ""), ready(minute-time.Second)), "container app of pod web-1 exited with code 2 and was restarted 3 times, without a termination message" + byMode, time.Second},
		{"is ready again", pod("web-1", "web", time.Hour, exits(3, 2, ""), ready(minute)), "", 0},
		{"was restarted twice and is ready", pod("web-1", "web", time.Hour, exits(2, 2, ""), ready(0)), "", 0},
		{"of a node whose clock is ahead", pod("web-1", "web", -time.Hour), "", minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svc := rotatortest.Service("web", "web-tls")
			d := Decide(Situation{Now: noon, Pods: []*pods.Facts{tt.pod}, Services: []*corev1.Service{svc}})
			assert.Equal(t, tt.after, d.After)
			if tt.want == "" {
				assert.Empty(t, d.Conditions)
				assert.Empty(t, d.Notify)
				assert.Zero(t, d.Failing)
				return
			}
			require.Len(t, d.Notify, 1)
			assert.Equal(t, tt.want, d.Notify[0].Text)
			assert.Same(t, svc, d.Notify[0].For)
			require.Len(t, d.Conditions, 1)
			assert.Equal(t, metav1.Condition{Type: api.ConditionPodsHealthy, Status: metav1.ConditionFalse, Reason: api.PodsFailing, Message: "Deployment web: " + tt.want}, d.Conditions[0].Want.Condition)
			assert.Empty(t, d.Conditions[0].Want.State)
			assert.Equal(t, 1, d.Failing)
		})
	}
}

// written returns the situation after the decision was carried out.
func written(s Situation, d Decision) Situation {
	services := map[*corev1.Service]*corev1.Service{}
	for _, c := range d.Conditions {
		services[c.Service] = c.Service.DeepCopy()
		services[c.Service].Status.Conditions = c.Want.Both()
	}
	var all []*corev1.Service
	for _, svc := range s.Services {
		if services[svc] != nil {
			svc = services[svc]
		}
		all = append(all, svc)
	}
	s.Services, s.Reported = all, d.Reported
	return s
}

// TestFailureIsReportedOnce: for all later runs, and with the exit code once it is known.
func TestFailureIsReportedOnce(t *testing.T) {
	s := Situation{Now: noon, Services: []*corev1.Service{rotatortest.Service("web", "web-tls")}}
	look := func(notify int, says string, all ...*pods.Facts) {
		t.Helper()
		s.Pods = all
		d := Decide(s)
		assert.Len(t, d.Notify, notify)
		s = written(s, d)
		message := ""
		if c := api.Condition(s.Services[0], api.ConditionPodsHealthy); c != nil {
			message = c.Message
		}
		if says == "" {
			assert.Empty(t, message)
		}
		assert.Contains(t, message, says)
		assert.Empty(t, Decide(s).Conditions, "what is written is decided again")
		assert.Empty(t, Decide(s).Notify)
	}
	look(1, "was not ready within a minute;", pod("web-1", "web", time.Minute))
	look(0, `restarted 3 times; its termination message ends with "one"`, pod("web-1", "web", time.Hour, exits(3, 2, "one")))
	look(0, `restarted 3 times; its termination message ends with "one"`, pod("web-1", "web", time.Hour, exits(4, 1, "two")), pod("web-0", "web", time.Hour, exits(9, 1, "three")))
	look(0, "", pod("web-1", "web", time.Hour, exits(4, 1, "two"), ready(time.Minute)))
	look(0, `termination message ends with "one"`, pod("web-1", "web", time.Hour, exits(5, 1, "four")))
	look(1, `termination message ends with "five"`, pod("web-2", "web", time.Hour, exits(5, 1, "five"), rotatortest.Label("pod-template-hash", "next")))
	look(1, `termination message ends with "six"`, pod("web-1", "web", time.Hour, exits(5, 1, "six")))
	look(0, "")
	assert.Empty(t, s.Reported)
}

func TestWhereAFailureIsReported(t *testing.T) {
	names := func(secret, service string) rotatortest.Change {
		return func(p *corev1.Pod) {
			p.Annotations[api.AnnotationStatus] = api.InjectionStatus{Secret: secret, Service: service, Containers: map[string]string{"app": "files"}}.Format()
		}
	}
	older, other := rotatortest.Service("older", "web-tls"), rotatortest.Service("other", "other-tls")
	older.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	web := rotatortest.Service("web", "web-tls")
	web.CreationTimestamp = metav1.NewTime(noon)
	podKeys := rotatortest.Service("keys", "")
	podKeys.Annotations = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}
	asksNoMore := rotatortest.Service("past", "")
	asksNoMore.Annotations = nil
	asksNoMore.Status.Conditions = []metav1.Condition{{Type: api.ConditionPodsHealthy, Status: metav1.ConditionFalse}}
	for name, tt := range map[string]struct {
		change rotatortest.Change
		want   *corev1.Service
	}{
		"the Service that the webhook names":   {names("web-tls", "web"), web},
		"the oldest that asks for the Secret":  {names("web-tls", ""), older},
		"a Service whose pods make their keys": {names("", "keys"), podKeys},
		"no Service asks":                      {names("mine", ""), nil},
		"the CA bundle alone":                  {names("", ""), nil},
		"a Service that no longer asks":        {names("", "past"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(Situation{Now: noon, Services: []*corev1.Service{web, other, older, podKeys, asksNoMore}, Pods: []*pods.Facts{pod("web-1", "web", time.Hour, tt.change)}})
			require.Len(t, d.Notify, 1)
			assert.Same(t, tt.want, d.Notify[0].For)
			wants := map[*corev1.Service]bool{}
			for _, c := range d.Conditions {
				wants[c.Service] = c.Want != nil
			}
			want := map[*corev1.Service]bool{asksNoMore: false}
			if tt.want != nil {
				want[tt.want] = true
			}
			assert.Equal(t, want, wants)
		})
	}
}

// TestSeveralPodsOfATemplate: the first with an exit code is reported.
func TestSeveralPodsOfATemplate(t *testing.T) {
	s := Situation{Now: noon, Services: []*corev1.Service{rotatortest.Service("web", "web-tls")}}
	for want, all := range map[string][]*pods.Facts{
		"web-1": {pod("web-2", "web", time.Hour), pod("web-1", "web", time.Hour)},
		"web-2": {pod("web-1", "web", time.Hour), pod("web-3", "web", time.Hour, exits(3, 1, "")), pod("web-2", "web", time.Hour, exits(9, 2, ""))},
		"web-0": {pod("web-0", "web", time.Hour, exits(3, 1, "")), pod("web-1", "web", time.Hour)},
	} {
		s.Pods = all
		d := Decide(s)
		require.Len(t, d.Notify, 1)
		assert.Equal(t, want, d.Notify[0].Pod)
		assert.Equal(t, 1, d.Failing)
	}
	s.Pods = []*pods.Facts{pod("a", "web", 30*time.Second), pod("b", "web", 40*time.Second), pod("c", "web", 10*time.Second)}
	assert.Equal(t, 20*time.Second, Decide(s).After, "the first that may fail")
}

func TestConditionQuotesFewFailures(t *testing.T) {
	for n, more := range map[int]string{maxNamed: "", maxNamed + 1: "and 1 more"} {
		s := Situation{Now: noon, Services: []*corev1.Service{rotatortest.Service("web", "web-tls")}}
		for i := range n {
			s.Pods = append(s.Pods, pod(fmt.Sprint("web-", i), fmt.Sprint("web", i), time.Hour))
		}
		message := Decide(s).Conditions[0].Want.Message
		assert.Equal(t, maxNamed, strings.Count(message, "; if the injection"))
		_, rest, _ := strings.Cut(message, "; and ")
		assert.Equal(t, strings.TrimPrefix(more, "and "), rest)
	}
}

func TestBarePodsAreDistinguished(t *testing.T) {
	d := Decide(Situation{Now: noon, Services: []*corev1.Service{rotatortest.Service("web", "web-tls")}, Pods: []*pods.Facts{pod("b", "", time.Hour), pod("a", "", time.Hour)}})
	require.Len(t, d.Notify, 2)
	assert.Equal(t, "a", d.Notify[0].Pod)
	assert.EqualValues(t, "uid-of-a", d.Notify[0].Key.Pod)
	assert.True(t, strings.HasPrefix(d.Conditions[0].Want.Message, "Pod a: container app of pod a was"), d.Conditions[0].Want.Message)
	assert.Contains(t, d.Conditions[0].Want.Message, "; Pod b: container app")
}

// TestPodsOfNamespaceNotOptedInAreIgnored: the webhook did not inject them.
func TestPodsOfNamespaceNotOptedInAreIgnored(t *testing.T) {
	s := Situation{Now: noon, Services: []*corev1.Service{rotatortest.Service("web", "web-tls")}, Pods: []*pods.Facts{pod("web-1", "web", time.Hour)}}
	s.Rounds = Rounds{operated("db-1", 0).Template.Value().Workload: {Deleted: minRepeats, Last: noon}}
	s = written(s, Decide(s))
	require.NotNil(t, api.Condition(s.Services[0], api.ConditionPodsHealthy))
	s.NotOptedIn = true
	d := Decide(s)
	require.Len(t, d.Conditions, 1)
	assert.Nil(t, d.Conditions[0].Want)
	assert.Empty(t, d.Notify)
	assert.Empty(t, d.Reported)
}

// TestReportsOfHostilePodsAreShort: a tenant controls all texts of its pods.
func TestReportsOfHostilePodsAreShort(t *testing.T) {
	const n = 2000
	s := Situation{Now: noon, Services: []*corev1.Service{rotatortest.Service("web", "web-tls")}}
	for i := range n {
		long := func(size int, text string) string {
			return strings.Repeat(text, size)[:size-4] + fmt.Sprintf("%04d", i)
		}
		s.Pods = append(s.Pods, pod(long(253, "p"), "", time.Hour, exits(3, 255, strings.Repeat(`"`, 30<<10)), func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("example.com/v1", long(300, "\u00e9"), long(300, "\x1b"))}
			name := strings.Repeat("c", 63)
			p.Status.ContainerStatuses[0].Name = name
			p.Annotations[api.AnnotationStatus] = api.InjectionStatus{Service: "web", Containers: map[string]string{name: "flags"}}.Format()
		}))
	}
	var d Decision
	require.NoError(t, bounded.Check(n*4096, func() { d = Decide(s) }))
	require.Len(t, d.Notify, n)
	for _, f := range d.Notify {
		assert.Less(t, len(f.Text), 1024, "the API server takes no longer note")
	}
	require.Len(t, d.Conditions, 1)
	assert.Less(t, len(d.Conditions[0].Want.Message), 8<<10)
	assert.True(t, strings.HasSuffix(d.Conditions[0].Want.Message, fmt.Sprintf("; and %d more", n-maxNamed)))
	assert.NotContains(t, d.Conditions[0].Want.Message, "\x1b")
	assert.Equal(t, n, d.Failing)
	s.Pods = nil
	assert.Empty(t, Decide(written(s, d)).Reported)
}
