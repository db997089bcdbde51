package correct

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

type termination = corev1.ContainerStateTerminated

func code(n int32) func(*termination)    { return func(t *termination) { t.ExitCode = n } }
func reason(r string) func(*termination) { return func(t *termination) { t.Reason = r } }
func ran(d time.Duration) func(*termination) {
	return func(t *termination) { t.StartedAt = metav1.NewTime(t.FinishedAt.Add(-d)) }
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func running(ago time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-ago))}}
}

func started(ago time.Duration) rotatortest.Change {
	return func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: noon.Add(-ago)} }
}

func initialized(ago time.Duration) rotatortest.Change {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-ago))})
	}
}

// TestWhichCrashesAreBlamed: what a pod by itself shows.
func TestWhichCrashesAreBlamed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change rotatortest.Change
		want   Evidence // empty if it is not blamed
	}{
		{"it names the flag", crashes(unknownFlag), EvidenceNamed},
		{"it shows its usage", crashes(usageText), EvidenceUsage},
		{"it says nothing", crashes(""), EvidenceSilent},
		{"another cause", crashes(otherText), ""},
		{"it was restarted once", rotatortest.All(crashes(unknownFlag), restarts(1)), EvidenceNamed},
		{"it was not restarted yet", rotatortest.All(crashes(unknownFlag), restarts(0)), ""},
		{"it has just ended", inState(corev1.ContainerState{Terminated: ended(unknownFlag)}, nil), EvidenceNamed},
		{"it has just ended well", inState(corev1.ContainerState{Terminated: ended(unknownFlag, code(0))}, ended(unknownFlag)), EvidenceNamed},
		{"it has just ended well, for another cause", inState(corev1.ContainerState{Terminated: ended(usageText, code(0))}, ended(unknownFlag)), ""},
		{"it was started again", inState(running(time.Second), ended(unknownFlag)), ""},
		{"it runs", inState(running(time.Hour), ended(unknownFlag)), ""},
		{"its image is not there", inState(waiting("ImagePullBackOff"), ended(unknownFlag)), ""},
		{"it cannot be made", inState(waiting("CreateContainerConfigError"), ended(unknownFlag)), ""},
		{"it is being made", inState(waiting("ContainerCreating"), nil), ""},
		{"no end is known", inState(waiting("CrashLoopBackOff"), nil), ""},
		{"it ended well", crashes(unknownFlag, code(0)), EvidenceNamed},
		{"exit code 1", crashes(unknownFlag, code(1)), EvidenceNamed},
		{"exit code 128", crashes(unknownFlag, code(128)), EvidenceNamed},
		{"killed", crashes(unknownFlag, code(137)), ""},
		{"asked to end", crashes(unknownFlag, code(143)), ""},
		{"exit code 255", crashes(unknownFlag, code(255)), EvidenceNamed},
		{"exit code 255, with its usage", crashes(usageText, code(255)), EvidenceUsage},
		{"exit code 255, without a word", crashes("", code(255)), ""},
		{"interrupted", crashes(unknownFlag, code(130)), ""},
		{"a signal", crashes(unknownFlag, func(t *termination) { t.Signal = 11 }), ""},
		{"out of memory", crashes(unknownFlag, reason("OOMKilled")), ""},
		{"its program is not there", crashes(unknownFlag, code(127), reason("ContainerCannotRun")), ""},
		{"it did not start", crashes("exec: no such file", code(128), reason("StartError")), ""},
		{"it ran as long as a short run may", crashes(unknownFlag, ran(pods.ShortRun)), EvidenceNamed},
		{"it ran longer", crashes(unknownFlag, ran(pods.ShortRun+time.Second)), EvidenceNamed},
		{"it ran longer, and shows its usage", crashes(usageText, ran(pods.ShortRun+time.Second)), ""},
		{"it ran longer, without a word", crashes("", ran(pods.ShortRun+time.Second)), ""},
		{"another container crashes", rotatortest.All(crashes(unknownFlag), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Name = "proxy" }), ""},
		{"a native sidecar", rotatortest.All(crashes(unknownFlag), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = p.Status.ContainerStatuses, nil
		}), EvidenceNamed},
		{"it is being deleted", rotatortest.All(crashes(unknownFlag), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), ""},

		{"silent, and served for an hour before", rotatortest.All(crashes(""), started(time.Hour)), ""},
		{"usage, and served for an hour before", rotatortest.All(crashes(usageText), started(time.Hour)), ""},
		{"names the flag, whenever", rotatortest.All(crashes(unknownFlag), started(time.Hour)), EvidenceNamed},
		{"silent, after long init containers", rotatortest.All(crashes(""), started(time.Hour), initialized(3*time.Minute)), EvidenceSilent},
		{"silent, crashing for an hour", rotatortest.All(crashes(""), started(time.Hour), restarts(14)), EvidenceSilent},

		{"not injected", rotatortest.All(crashes(unknownFlag), rotatortest.Label(api.LabelInjected, "false")), ""},
		{"no attempt", rotatortest.All(crashes(unknownFlag), rotatortest.Annotation(api.AnnotationStatus, api.InjectionStatus{Service: "web"}.Format())), ""},
		{"an attempt of another container", rotatortest.All(crashes(unknownFlag), status(false, func(s *api.InjectionStatus) { s.Attempts = map[string]string{"proxy": attempt} })), ""},
		{"a malformed attempt", rotatortest.All(crashes(unknownFlag), status(false, func(s *api.InjectionStatus) { s.Attempts = map[string]string{"app": "x"} })), ""},
		{"a malformed status", rotatortest.All(crashes(unknownFlag), rotatortest.Annotation(api.AnnotationStatus, "{")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, workload := range []string{"web", ""} {
				s := Situation{Now: noon, Enabled: true, Pods: []*pods.Facts{pod("web-1", workload, status(false), tt.change)}, Services: []Service{service("web")}}
				facts := factsOf(s, Decide(s))
				if tt.want == "" {
					assert.Empty(t, facts)
					continue
				}
				want := fact(state.VerdictWithheld, 0, tt.want != EvidenceNamed)
				if workload == "" {
					want.Workload = "Pod/web-1"
				}
				assert.Equal(t, state.Flags{want}, facts)
				assert.Equal(t, tt.want, Decide(s).Changes[0].Findings[0].Evidence)
			}
		})
	}
}

// TestSiblings: what the other pods of the template show.
func TestSiblings(t *testing.T) {
	steady := rotatortest.Change(nil)
	revision := func(hash string) rotatortest.Change { // of another template of the same workload
		return func(p *corev1.Pod) {
			p.Labels["pod-template-hash"] = hash
			p.OwnerReferences[0].Name = "web-" + hash
		}
	}
	withheld, made := status(true), status(false)
	for _, tt := range []struct {
		name    string
		message string
		sibling rotatortest.Change
		want    Evidence
	}{
		{"fails without it too: silent", "", rotatortest.All(withheld, crashes("")), ""},
		{"fails without it too: usage", usageText, rotatortest.All(withheld, crashes(usageText)), ""},
		{"fails without it too: but names it", unknownFlag, rotatortest.All(withheld, crashes("")), EvidenceNamed},
		{"fails without it, and was started again just now", "", rotatortest.All(withheld, inState(running(time.Second), ended(""))), ""},
		{"failed without it, and runs", "", rotatortest.All(withheld, inState(running(time.Minute), ended(""))), EvidenceSilent},
		{"fails without it with another exit code", "", rotatortest.All(withheld, crashes("", code(3))), ""},
		{"fails and was not injected", "", crashes(""), ""},
		{"fails and was not injected, with another exit code", "", crashes("", code(3)), EvidenceSilent},
		{"fails and was not injected, of another template", "", rotatortest.All(crashes(""), revision("other")), EvidenceSilent},
		{"fails and was not injected, of another workload", "", rotatortest.All(crashes(""), func(p *corev1.Pod) { p.OwnerReferences[0].Name = "api-hash" }), EvidenceSilent},
		{"fails with it as well", "", rotatortest.All(made, crashes("")), EvidenceSilent},
		{"fails without it, of another template", "", rotatortest.All(withheld, crashes(""), revision("other")), ""},

		{"serves with it: silent", "", rotatortest.All(made, steady), ""},
		{"serves with it: usage", usageText, rotatortest.All(made, steady), ""},
		{"serves with it: but names it", unknownFlag, rotatortest.All(made, steady), EvidenceNamed},
		{"serves with it, of another template", "", rotatortest.All(made, revision("other")), EvidenceSilent},

		{"serves without it: another cause", otherText, withheld, EvidenceRunsWithout},
		{"serves without it, of another template: another cause", otherText, rotatortest.All(withheld, revision("other")), ""},
		{"serves without another attempt: another cause", otherText, status(true, func(s *api.InjectionStatus) { s.Withheld["app"] = "0b0b0b0b0b0b0b0b" }), ""},
		{"serves and was not injected: another cause", otherText, steady, ""},
		{"serves with it: another cause", otherText, made, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Situation{Now: noon, Enabled: true, Services: []Service{service("web")}, Pods: []*pods.Facts{
				pod("web-1", "web", made, crashes(tt.message)), pod("web-2", "web", tt.sibling),
			}}
			d := Decide(s)
			if tt.want == "" {
				assert.Empty(t, d.Changes)
				return
			}
			assert.Equal(t, tt.want, d.Changes[0].Findings[0].Evidence)
		})
	}
}

func TestRanBefore(t *testing.T) {
	at := func(begun time.Duration, restarts int32) bool {
		return ranBefore(noon.Add(-begun), pods.Crash{Restarts: restarts, Finished: noon})
	}
	assert.False(t, at(10*time.Minute+30*time.Second, 1), "10 min to pull, a run, 10 s, and another run")
	assert.True(t, at(10*time.Minute+31*time.Second, 1))
	assert.False(t, at(10*time.Minute+60*time.Second, 2))
	assert.True(t, at(10*time.Minute+61*time.Second, 2))
	assert.False(t, at(24*time.Hour, 285), "5 min between two restarts")
	assert.True(t, at(24*time.Hour, 200))
	assert.False(t, ranBefore(time.Time{}, pods.Crash{Finished: noon}), "nobody knows")
	assert.True(t, at(1<<40, -1))
}
