package pods

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func withStatus(s api.InjectionStatus) rotatortest.Change {
	return rotatortest.All(rotatortest.Label(api.LabelInjected, "true"), rotatortest.Annotation(api.AnnotationStatus, s.Format()))
}

// crashing is a container that waits for its next start after a run of a second.
func crashing(name, message string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: name, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 2, Reason: "Error", Message: message, StartedAt: metav1.NewTime(rotatortest.Noon), FinishedAt: metav1.NewTime(rotatortest.Noon.Add(time.Second)),
	}
	return s
}

// running is a container that was started at noon.
func running(name string, ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: ready, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(rotatortest.Noon)}}}
}

func statuses(s ...corev1.ContainerStatus) rotatortest.Change {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = s }
}

// given is the status of a pod whose container app was injected with parts.
func given(parts string) rotatortest.Change {
	return withStatus(api.InjectionStatus{Secret: "web-tls", Containers: map[string]string{"app": parts}})
}

func TestTrouble(t *testing.T) {
	with := func(s corev1.ContainerStatus, change func(*corev1.ContainerStatus)) rotatortest.Change {
		change(&s)
		return statuses(s)
	}
	ended := func(code int32, ran time.Duration) func(*corev1.ContainerStatus) {
		return func(s *corev1.ContainerStatus) {
			last := s.LastTerminationState.Terminated
			last.ExitCode, last.FinishedAt = code, metav1.NewTime(last.StartedAt.Add(ran))
		}
	}
	exited := &Trouble{Container: "app", Restarts: 3, ExitCode: 2}
	runs := &Trouble{Container: "app", Started: rotatortest.Noon}
	for _, tt := range []struct {
		name   string
		change rotatortest.Change
		want   *Trouble
	}{
		{"not started", statuses(), nil},
		{"ready", statuses(running("app", true)), nil},
		{"not ready", statuses(running("app", false)), runs},
		{"waits for its startup probe", with(running("app", false), func(s *corev1.ContainerStatus) { s.Started = new(false) }), nil},
		{"waits for its startup probe again", with(running("app", false), func(s *corev1.ContainerStatus) { s.Started, s.RestartCount = new(false), 1 }), &Trouble{Container: "app", Restarts: 1, Started: rotatortest.Noon}},
		{"waits for its image", statuses(corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}), nil},
		{"exited", statuses(crashing("app", "")), exited},
		{"has just exited", statuses(corev1.ContainerStatus{Name: "app", State: crashing("", "").LastTerminationState}), &Trouble{Container: "app", ExitCode: 2}},
		{"has ended well", statuses(corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}), nil},
		{"exits well again and again", with(crashing("app", ""), ended(0, time.Second)), &Trouble{Container: "app", Restarts: 3}},
		{"ran for long before, and is ready", with(crashing("app", "said"), func(s *corev1.ContainerStatus) { ended(2, 10*time.Minute)(s); s.Ready = true }), nil},
		{"ran for nearly as long before", with(crashing("app", ""), ended(2, 10*time.Minute-time.Second)), exited},
		{"is ready again", with(running("app", true), func(s *corev1.ContainerStatus) {
			s.RestartCount, s.LastTerminationState = 1, crashing("", "").LastTerminationState
		}), &Trouble{Container: "app", Ready: true, Restarts: 1, ExitCode: 2, Started: rotatortest.Noon}},
		{"a sidecar", func(p *corev1.Pod) { p.Status.InitContainerStatuses = []corev1.ContainerStatus{crashing("app", "")} }, exited},
		{"another container", statuses(crashing("other", "")), nil},
		{"of two, the one that was restarted more often", rotatortest.All(
			withStatus(api.InjectionStatus{Containers: map[string]string{"app": "files", "proxy": "proxy"}}), statuses(running("proxy", false), crashing("app", ""))), exited},
		{"of two that were restarted as often, the first", rotatortest.All(
			withStatus(api.InjectionStatus{Containers: map[string]string{"app": "files", "proxy": "proxy"}}), statuses(crashing("app", ""), crashing("proxy", ""))), exited},
		{"not injected", rotatortest.All(rotatortest.Label(api.LabelInjected, "false"), statuses(crashing("app", ""))), nil},
		{"no container has that name", rotatortest.All(withStatus(api.InjectionStatus{Containers: map[string]string{"a b": "files"}}), statuses(crashing("a b", ""))), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			owned := func(p *corev1.Pod) {
				p.UID, p.OwnerReferences = "u", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "StatefulSet", "web")}
			}
			f := FactsOf(rotatortest.Pod(owned, given("files"), tt.change))
			assert.Equal(t, tt.want, f.Trouble)
			assert.Equal(t, tt.want != nil, f.UID == "u")
		})
	}
}

func TestSwitched(t *testing.T) {
	for parts, want := range map[string]bool{
		"files": false, "files,env": false, "proxy": false, "files,trust": false, "files,env,flags": true, "variables": true, "files,probes": true, strings.Repeat("x", maxParts) + ",flags": false,
	} {
		f := FactsOf(rotatortest.Pod(given(parts), statuses(crashing("app", ""))))
		assert.Equal(t, want, f.Trouble.Switched, parts)
	}
}

func TestOutput(t *testing.T) {
	for message, want := range map[string]string{
		"":                          "",
		" \n\x00\xff":               "",
		"unknown flag: --x\n":       `"unknown flag: --x"`,
		"a\n\n b\tc\r\n":            `"a b c"`,
		"\x1b[31mred\x1b[0m":        `"[31mred [0m"`,
		`say "no" \ yes`:            `"say \"no\" \\ yes"`,
		"caf\u00e9\u202e\U0001f600": "\"caf\u00e9 \U0001f600\"",

		// At most maxOutput bytes of the end, and whole characters.
		"first" + strings.Repeat("x", maxOutput):  `"` + strings.Repeat("x", maxOutput) + `"`,
		strings.Repeat("\u00e9", maxOutput):       `"` + strings.Repeat("\u00e9", maxOutput/2) + `"`,
		"x" + strings.Repeat("\u20ac", maxOutput): `"` + strings.Repeat("\u20ac", maxOutput/3) + `"`,
	} {
		f := FactsOf(rotatortest.Pod(given("files"), statuses(crashing("app", message))))
		assert.Equal(t, want, f.Trouble.Output, "%q", message)
	}
	f := FactsOf(rotatortest.Pod(given("files"), statuses(crashing("app", strings.Repeat(`"`, 4096)))))
	assert.Len(t, f.Trouble.Output, 2*maxOutput+2, "the longest")
}

func TestBegun(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(rotatortest.Noon.Add(d)) }
	says := func(kind corev1.PodConditionType, status corev1.ConditionStatus, since time.Duration) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: at(since)}
	}
	notReady := says(corev1.PodReady, corev1.ConditionFalse, time.Second)
	for name, tt := range map[string]struct {
		conditions []corev1.PodCondition
		want       time.Duration // negative for none
	}{
		"taken by a kubelet":                 {[]corev1.PodCondition{notReady}, 0},
		"its init containers took long":      {[]corev1.PodCondition{says(corev1.PodInitialized, corev1.ConditionTrue, time.Hour), notReady}, time.Hour},
		"its init containers have not ended": {[]corev1.PodCondition{says(corev1.PodInitialized, corev1.ConditionFalse, time.Hour), notReady}, 0},
		"ready":                              {[]corev1.PodCondition{says(corev1.PodReady, corev1.ConditionTrue, time.Second)}, -1},
		"was ready":                          {[]corev1.PodCondition{says(corev1.PodReady, corev1.ConditionFalse, sameMoment+time.Second)}, -1},
		"the last moment that is the same":   {[]corev1.PodCondition{says(corev1.PodReady, corev1.ConditionFalse, sameMoment)}, 0},
		"no kubelet has said anything":       {nil, -1},
	} {
		start := at(0)
		pod := rotatortest.Pod(given("files"), statuses(running("app", false)), func(p *corev1.Pod) { p.Status.StartTime, p.Status.Conditions = &start, tt.conditions })
		got := FactsOf(pod).Trouble.Begun
		if tt.want < 0 {
			assert.Zero(t, got, name)
			continue
		}
		assert.Equal(t, rotatortest.Noon.Add(tt.want), got.UTC(), name)
	}
}

// TestBegunIsNotBeforeTheContainer: pulling an image, and waiting for volumes, is not the program's time.
func TestBegunIsNotBeforeTheContainer(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(rotatortest.Noon.Add(d)) }
	run := func(start time.Duration) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: 2, StartedAt: at(start), FinishedAt: at(start + time.Second)}
	}
	runs := func(start time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(start)}}
	}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	const late = 5 * time.Minute
	for name, tt := range map[string]struct {
		status corev1.ContainerStatus
		want   time.Duration
	}{
		"it runs":              {corev1.ContainerStatus{State: runs(late), Started: new(true)}, late},
		"it has ended":         {corev1.ContainerStatus{State: corev1.ContainerState{Terminated: run(late)}}, late},
		"it waits":             {corev1.ContainerStatus{State: waits, RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: run(late)}}, late},
		"it runs again":        {corev1.ContainerStatus{State: runs(2 * late), RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: run(late)}}, late},
		"it has ended again":   {corev1.ContainerStatus{State: corev1.ContainerState{Terminated: run(2 * late)}, RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: run(late)}}, late},
		"it waits again":       {corev1.ContainerStatus{State: waits, RestartCount: 2, LastTerminationState: corev1.ContainerState{Terminated: run(late)}}, 0},
		"its start is unknown": {corev1.ContainerStatus{State: waits, RestartCount: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			start := at(0)
			tt.status.Name = "app"
			pod := rotatortest.Pod(given("files"), statuses(tt.status), func(p *corev1.Pod) {
				p.Status.StartTime = &start
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(time.Second)}}
			})
			assert.Equal(t, rotatortest.Noon.Add(tt.want), FactsOf(pod).Trouble.Begun.UTC())
		})
	}
}

// TestBegunIsAfterTheStartupProbe: when the probe passed is not in the status. It passes before the first
// readiness probe does.
func TestBegunIsAfterTheStartupProbe(t *testing.T) {
	probe := func(delay, period, failures int32) *corev1.Probe {
		return &corev1.Probe{InitialDelaySeconds: delay, PeriodSeconds: period, FailureThreshold: failures}
	}
	for name, tt := range map[string]struct {
		probe    *corev1.Probe
		restarts int32
		want     time.Duration
	}{
		"no probe":              {nil, 0, 0},
		"the defaults":          {probe(0, 0, 0), 0, 30 * time.Second},
		"five minutes":          {probe(20, 10, 30), 0, 5*time.Minute + 20*time.Second},
		"it has failed":         {probe(20, 10, 30), 1, 0},
		"no number is too high": {probe(1<<31-1, 1<<31-1, 1<<31-1), 0, maxStartup},
	} {
		t.Run(name, func(t *testing.T) {
			start := metav1.NewTime(rotatortest.Noon)
			status := running("app", false)
			if status.RestartCount = tt.restarts; tt.restarts > 0 {
				status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{StartedAt: start, FinishedAt: start}
			}
			pod := rotatortest.Pod(given("files"), statuses(status), func(p *corev1.Pod) {
				p.Spec.Containers = []corev1.Container{{Name: "other", StartupProbe: probe(9, 9, 9)}, {Name: "app", StartupProbe: tt.probe}}
				p.Status.StartTime = &start
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: start}}
			})
			assert.Equal(t, rotatortest.Noon.Add(tt.want), FactsOf(pod).Trouble.Begun.UTC())
		})
	}
}

func TestInjection(t *testing.T) {
	s := api.InjectionStatus{Secret: "web-tls", Service: "web", Containers: map[string]string{"app": "files"}}
	of := func(changes ...rotatortest.Change) Injection {
		return FactsOf(rotatortest.Pod(changes...)).Template.Value().Injection
	}
	assert.Equal(t, Injection{"web", "web-tls", true}, of(withStatus(s)))
	assert.Equal(t, Injection{"", "", true}, of(withStatus(api.InjectionStatus{Containers: s.Containers})), "the CA bundle alone")
	assert.Zero(t, of(rotatortest.Annotation(api.AnnotationStatus, s.Format())), "it was not injected")
	assert.Zero(t, of(withStatus(api.InjectionStatus{Service: "web"})))
	assert.Zero(t, of(withStatus(s), rotatortest.Label(api.LabelInject, api.InjectDisabled)), "the webhook leaves it alone")
	s.Service, s.Secret = "../web", strings.Repeat("x", 300)
	assert.Equal(t, Injection{"", "", true}, of(withStatus(s)))
}

func TestRevision(t *testing.T) {
	for want, labels := range map[string]map[string]string{
		"": nil, "a": {"pod-template-hash": "a"}, "b": {"controller-revision-hash": "b", "app": "web"},
	} {
		got := FactsOf(rotatortest.Pod(func(p *corev1.Pod) { p.Labels = labels })).Template.Value()
		assert.Equal(t, want, got.Revision())
	}
}
