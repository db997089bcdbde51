package correct

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// unready has container app run for so long without being ready for its probe on port
// 443.
func unready(ran time.Duration) rotatortest.Change {
	return rotatortest.All(status(false, func(s *api.InjectionStatus) { s.Containers = map[string]string{"app": "files,flags,probes"} }), func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(443)}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-ran))}}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	})
}

func TestPodsThatAnswerInPlaintext(t *testing.T) {
	answer := func(kind probe.Kind, port uint16, ago time.Duration) []probe.Answer {
		return []probe.Answer{{Kind: kind, Port: port, At: noon.Add(-ago)}}
	}
	for _, tt := range []struct {
		name    string
		pod     rotatortest.Change
		answers []probe.Answer
		sibling rotatortest.Change // a pod of the template that is ready, or nil for none
		blamed  bool
		dialed  bool
		after   time.Duration
	}{
		{"just started", unready(0), nil, nil, false, true, 0},
		{"on a node whose clock is ahead", unready(-time.Hour), nil, nil, false, false, pause},
		{"not ready for long", unready(time.Hour), nil, nil, false, true, 0},
		{"plaintext at once", unready(time.Second), answer(probe.Plaintext, 443, 0), nil, true, false, settle},
		{"plaintext", unready(time.Minute), answer(probe.Plaintext, 443, time.Second), nil, true, false, settle},
		{"plaintext at another port", unready(time.Minute), answer(probe.Plaintext, 80, time.Second), nil, false, false, pause - time.Second},
		{"plaintext of the run before", unready(time.Minute), answer(probe.Plaintext, 443, time.Minute+time.Second), nil, false, true, 0},
		{"TLS", unready(time.Minute), answer(probe.TLS, 443, time.Second), nil, false, false, longPause - time.Second},
		{"an address that is not dialled", unready(time.Minute), answer(probe.NotVerified, 443, time.Second), nil, false, false, longPause - time.Second},
		{"no answer", unready(time.Minute), answer(probe.NoAnswer, 443, time.Second), nil, false, false, pause - time.Second},
		{"no answer, a while ago", unready(2 * time.Minute), answer(probe.NoAnswer, 443, pause), nil, false, true, 0},
		{"no answer for long", unready(time.Hour), answer(probe.NoAnswer, 443, pause), nil, false, false, longPause - pause},
		{"another of its template is ready with it", unready(time.Minute), answer(probe.Plaintext, 443, time.Second), status(false), false, false, 0},
		{"another of its template is ready without it", unready(time.Minute), answer(probe.Plaintext, 443, time.Second), status(true), true, false, settle},
		{"being deleted", rotatortest.All(unready(time.Minute), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), answer(probe.Plaintext, 443, time.Second), nil, false, false, 0},
		{"no address", rotatortest.All(unready(time.Minute), func(p *corev1.Pod) { p.Status.PodIP = "" }), nil, nil, false, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Situation{
				Now: noon, Enabled: true, Services: []Service{service("web")}, Pods: []*pods.Facts{pod("web-1", "web", tt.pod)},
				Answers: map[types.UID][]probe.Answer{"uid-of-web-1": tt.answers},
			}
			if tt.sibling != nil {
				s.Pods = append(s.Pods, pod("web-2", "web", tt.sibling))
			}
			d := Decide(s)
			assert.Equal(t, tt.blamed, factsOf(s, d).Withholds(attempt))
			assert.Equal(t, tt.after, d.After)
			assert.Equal(t, tt.dialed, len(d.Dial) == 1)
			if tt.dialed {
				assert.Equal(t, probe.Key{Of: pods.NamespacedKey{Namespace: "shop"}, Pod: "uid-of-web-1"}, d.Dial[0].Key)
				assert.Equal(t, []uint16{443}, d.Dial[0].Ports)
			}
			if !tt.blamed {
				return
			}
			assert.Equal(t, EvidencePlaintext, d.Changes[0].Findings[0].Evidence)
			assert.Equal(t, "answers in plaintext on port 443", d.Changes[0].Findings[0].Line)
			s = written(s, d)
			s.Now = noon.Add(settle)
			assert.Equal(t, []string{"web-1"}, deleted(Decide(s)))
			s.Answers = nil
			assert.Empty(t, Decide(s).Delete, "nobody knows any more")
		})
	}
}

// restarted has container app run for so long after its liveness probe, the only one, has had
// the run before ended with that code, so many times.
func restarted(ran time.Duration, exit int32, times int32) rotatortest.Change {
	return rotatortest.All(unready(ran), func(p *corev1.Pod) {
		c, s := &p.Spec.Containers[0], &p.Status.ContainerStatuses[0]
		c.LivenessProbe, c.ReadinessProbe = c.ReadinessProbe, nil
		s.Ready, s.RestartCount = true, times
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: exit, Reason: "Error", StartedAt: metav1.NewTime(noon.Add(-ran - 40*time.Second)), FinishedAt: metav1.NewTime(noon.Add(-ran))}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
}

// waitsAgain has container app wait for its next start after a run of so long that ended a
// second before noon.
func waitsAgain(ran time.Duration, exit int32) rotatortest.Change {
	return rotatortest.All(unready(0), func(p *corev1.Pod) {
		s := &p.Status.ContainerStatuses[0]
		s.RestartCount, s.State = 2, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: exit, Reason: "Error", StartedAt: metav1.NewTime(noon.Add(-ran - time.Second)), FinishedAt: metav1.NewTime(noon.Add(-time.Second))}
	})
}

// TestProgramsThatIgnoreTheirFlags: that are killed for it, or listen late.
func TestProgramsThatIgnoreTheirFlags(t *testing.T) {
	plaintext := func(ago time.Duration) []probe.Answer {
		return []probe.Answer{{Kind: probe.Plaintext, Port: 443, At: noon.Add(-ago)}}
	}
	refused := func(ago time.Duration) []probe.Answer {
		return []probe.Answer{{Kind: probe.NoAnswer, Cause: probe.CauseRefused, Port: 443, At: noon.Add(-ago)}}
	}
	ended := func(p *corev1.Pod) {
		s := &p.Status.ContainerStatuses[0]
		s.State = corev1.ContainerState{Terminated: s.LastTerminationState.Terminated}
	}
	for _, tt := range []struct {
		name    string
		pod     rotatortest.Change
		answers []probe.Answer
		blamed  bool
		dialed  bool
		after   time.Duration
		deleted bool
	}{
		{"killed by its liveness probe, and started again", restarted(0, 143, 1), nil, false, true, 0, false},
		{"killed by its liveness probe, and not listening yet", restarted(time.Second, 143, 1), refused(time.Second), false, false, pause - time.Second, false},
		{"killed by its liveness probe, and answers", restarted(2*time.Second, 137, 1), plaintext(time.Second), true, false, settle, true},
		{"it ends well when it is killed", restarted(2*time.Second, 0, 4), plaintext(time.Second), true, false, settle, true},
		{"killed once, long ago", restarted(time.Hour, 137, 1), nil, false, false, 0, false},
		{"killed once, long ago, and answers", restarted(time.Hour, 137, 1), plaintext(time.Second), false, false, 0, false},
		{"never killed", restarted(time.Second, 137, 0), nil, false, false, 0, false},
		{"restarted, and its readiness probe shows that it serves", rotatortest.All(restarted(time.Second, 137, 1), func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = p.Spec.Containers[0].LivenessProbe
		}), plaintext(0), false, false, 0, false},

		{"killed after 5 s, and waits", waitsAgain(5*time.Second, 137), plaintext(4 * time.Second), true, false, settle, true},
		{"killed after 5 s, and has just ended", rotatortest.All(waitsAgain(5*time.Second, 137), ended), plaintext(4 * time.Second), true, false, settle, false},
		{"killed after 5 s, and did not answer", waitsAgain(5*time.Second, 137), refused(4 * time.Second), false, false, 0, false},
		{"killed after 5 s, and was not dialled", waitsAgain(5*time.Second, 137), nil, false, false, 0, false},

		{"it listens late", unready(2 * time.Minute), refused(time.Second), false, false, pause - time.Second, false},
		{"it has listened late", unready(2 * time.Minute), plaintext(0), true, false, settle, true},
		{"it listens after an hour", unready(time.Hour), plaintext(0), true, false, settle, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Situation{
				Now: noon, Enabled: true, Services: []Service{service("web")}, Pods: []*pods.Facts{pod("web-1", "web", tt.pod), pod("web-2", "web", tt.pod)},
				Answers: map[types.UID][]probe.Answer{"uid-of-web-1": tt.answers, "uid-of-web-2": tt.answers},
			}
			d := Decide(s)
			assert.Equal(t, tt.blamed, factsOf(s, d).Withholds(attempt))
			assert.Equal(t, tt.dialed, len(d.Dial) == 2)
			assert.Equal(t, tt.after, d.After)
			s = written(s, d)
			s.Now = noon.Add(settle)
			assert.Equal(t, tt.deleted, len(Decide(s).Delete) == 2)
		})
	}
}

// Of several pods that are dialled later, the first says when to look again.
func TestTheSoonestDialCounts(t *testing.T) {
	s := Situation{Now: noon, Enabled: true, Services: []Service{service("web")}, Answers: map[types.UID][]probe.Answer{}}
	for i, ago := range []time.Duration{time.Second, 2 * time.Second, 1500 * time.Millisecond, time.Hour} { // the last is due
		p := pod(fmt.Sprint("web-", i), "web", unready(time.Minute))
		s.Answers[p.UID] = []probe.Answer{{Kind: probe.NoAnswer, Port: 443, At: noon.Add(-ago)}}
		s.Pods = append(s.Pods, p)
	}
	assert.Equal(t, pause-2*time.Second, Decide(s).After)
}

func TestFold(t *testing.T) {
	assert.Equal(t, "az-az-09é", fold("AZ_az-09é"))
}

// TestManyPodsAreDialledLessOften: whoever has pods that never become ready does not have all of
// them dialled every few seconds.
func TestManyPodsAreDialledLessOften(t *testing.T) {
	after := func(n int, answered bool) (dialled int, after time.Duration) {
		s := Situation{Now: noon, Enabled: true, Services: []Service{service("web")}, Answers: map[types.UID][]probe.Answer{}}
		for i := range n {
			p := pod(fmt.Sprint("web-", i), "web", unready(time.Minute))
			if s.Pods = append(s.Pods, p); answered {
				s.Answers[p.UID] = []probe.Answer{{Kind: probe.NoAnswer, Port: 443, At: noon}}
			}
		}
		d := Decide(s)
		return len(d.Dial), d.After
	}
	for n, want := range map[int]time.Duration{1: pause, 99: pause, 250: 3 * pause, 5000: longPause} {
		dialled, _ := after(n, false)
		assert.Equal(t, n, dialled, "each at once, the first time")
		_, wait := after(n, true)
		assert.Equal(t, want, wait, n)
	}
}
