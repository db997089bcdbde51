package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/correct"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestWhatEventsSay(t *testing.T) {
	workload := pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	line := strings.Repeat("é", 200) + "…"
	for _, tt := range []struct {
		name string
		f    correct.Finding
		want []string // each event begins with its type and reason
	}{
		{"named", correct.Finding{Verdict: state.VerdictWithheld, Workload: workload, Evidence: correct.EvidenceNamed, Line: `unknown flag: "--x"`, Service: rotatortest.Service("web", "web-tls")}, []string{
			`Warning FlagsWithheld container app of pod web-1 exited with code 2 when it was given unrequested flags, and said "unknown flag: \"--x\""; its pods are made anew without them: annotate the pod template servingcert.dev/mode: args if they are right`,
			`Warning FlagsWithheld container app of pod web-1 exited with code 2 when it was given unrequested flags, and said "unknown flag: \"--x\""; its pods are made anew without them: annotate the pod template servingcert.dev/mode: args if they are right`,
		}},
		{"silent, and no Service", correct.Finding{Verdict: state.VerdictSuspected, Workload: workload, Evidence: correct.EvidenceSilent}, []string{
			"Warning FlagsSuspected container app of pod web-1 exited with code 2 when it was given unrequested flags, and said nothing; nothing is done about it: annotate the pod template servingcert.dev/mode: env if they are wrong",
		}},
		{"bare", correct.Finding{Verdict: state.VerdictWithheld, Evidence: correct.EvidenceRunsWithout}, []string{
			"Warning FlagsWithheld container app of pod web-1 exited with code 2 when it was given unrequested flags, and another pod serves without them; recreate it: a new pod does not get them",
		}},
		{"plaintext", correct.Finding{Verdict: state.VerdictWithheld, Workload: workload, Evidence: correct.EvidencePlaintext, Line: "answers in plaintext on port 443"}, []string{
			"Warning FlagsWithheld container app of pod web-1 answers in plaintext on port 443 and fails its probes: it ignores unrequested flags; its pods are made anew without them: annotate the pod template servingcert.dev/mode: args if they are right",
		}},
		{"cleared", correct.Finding{Verdict: state.VerdictCleared, Workload: workload}, []string{
			"Normal FlagsKept container app of pod web-1 exited with code 2 without the unrequested flags, too: new pods get them again",
		}},
		{"as long as it can be", correct.Finding{Verdict: state.VerdictWithheld, Workload: workload, Evidence: correct.EvidenceUsage, Line: line}, []string{
			`Warning FlagsWithheld container app of pod web-1 exited with code 2 when it was given unrequested flags, and said "` + line + `"; its pods are made anew without them: annotate the pod template servingcert.dev/mode: args if they are right`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.Container, tt.f.Pod, tt.f.ExitCode = "app", "web-1", 2
			recorder := events.NewFakeRecorder(3)
			eventWriter{recorder}.found("shop", tt.f)
			close(recorder.Events)
			var got []string
			for e := range recorder.Events {
				got = append(got, e)
				assert.Less(t, len([]rune(e)), 1024)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func crashing(p *corev1.Pod) {
	s := corev1.ContainerStatus{Name: "app", RestartCount: 1, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
}

func TestWhichPodsAreLookedAt(t *testing.T) {
	status := api.InjectionStatus{Attempts: map[string]string{"app": "0a0a0a0a0a0a0a0a"}}
	attempted := rotatortest.All(rotatortest.Label(api.LabelInjected, "true"), rotatortest.Annotation(api.AnnotationStatus, status.Format()))
	of := func(changes ...rotatortest.Change) *pods.Facts {
		return pods.FactsOf(rotatortest.ReadyPod("web-1", "web", changes...))
	}
	again := func(p *corev1.Pod) { crashing(p); p.Status.ContainerStatuses[0].RestartCount++ }
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	renamed := func(p *corev1.Pod) { p.ResourceVersion = "2" }
	for _, tt := range []struct {
		name          string
		before, after *pods.Facts
		want          bool
	}{
		{"an ordinary pod comes", nil, of(), false},
		{"an ordinary pod becomes ready", of(notReady), of(), false},
		{"it comes with an attempt", nil, of(attempted), true},
		{"it goes with an attempt", of(attempted), nil, true},
		{"it becomes ready with an attempt", of(attempted, notReady), of(attempted), true},
		{"nothing of it changes that matters", of(attempted), of(attempted, renamed), false},
		{"it crashes", of(), of(crashing), true},
		{"it crashes again", of(crashing), of(again), true},
		{"it crashes as before", of(crashing), of(crashing, renamed), false},
		{"it runs", of(crashing), of(), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			onPod(func(_ facts.Queue, namespace string) { got = append(got, namespace) })(context.Background(), nil, tt.before, tt.after)
			assert.Equal(t, tt.want, len(got) == 1 && got[0] == "shop")
			assert.LessOrEqual(t, len(got), 1)
		})
	}
}

func TestWhichServicesAreLookedAt(t *testing.T) {
	asks, silent := rotatortest.Service("web", "web-tls"), rotatortest.Service("web", "")
	delete(silent.Annotations, api.AnnotationSecretName)
	says := func(svc *corev1.Service, message string) *corev1.Service {
		out := svc.DeepCopy()
		out.Status.Conditions = []metav1.Condition{{Type: api.ConditionFlags, Message: message}}
		return out
	}
	looks := 0
	r := &reconciler{}
	handler := r.onService(func(facts.Queue, string) { looks++ })
	update := func(before, after *corev1.Service) int {
		looks = 0
		handler.UpdateFunc(context.Background(), event.TypedUpdateEvent[*corev1.Service]{ObjectOld: before, ObjectNew: after}, nil)
		return looks
	}
	create := func(svc *corev1.Service) int {
		looks = 0
		handler.CreateFunc(context.Background(), event.TypedCreateEvent[*corev1.Service]{Object: svc}, nil)
		return looks
	}
	assert.Equal(t, 1, create(asks))
	assert.Equal(t, 1, create(says(silent, "x")))
	assert.Zero(t, create(silent))
	assert.Equal(t, 1, update(asks, silent))
	assert.Equal(t, 1, update(asks, says(asks, "x")))
	assert.Equal(t, 1, update(says(asks, "x"), says(asks, "y")))
	assert.Zero(t, update(says(asks, "x"), says(asks, "x")))
	assert.Zero(t, update(asks, rotatortest.Serves(asks.DeepCopy(), rotatortest.Leaf(1), rotatortest.Noon)))
}

func TestMetrics(t *testing.T) {
	l := newLedger()
	require.NoError(t, prometheus.NewPedanticRegistry().Register(l))
	assert.Zero(t, testutil.CollectAndCount(l))
	l.put("shop", 2, correct.Memory{})
	l.put("told", 0, correct.Memory{{Attempt: "a"}: true})
	l.count(state.VerdictWithheld)
	l.deleted(resultDeleted)
	assert.Equal(t, 3, testutil.CollectAndCount(l))
	assert.NoError(t, testutil.CollectAndCompare(l, strings.NewReader(`
# HELP servingcert_flags_withheld Containers' flags that new pods do not get because the program exits because of them or ignores them, by namespace; absent if there are none.
# TYPE servingcert_flags_withheld gauge
servingcert_flags_withheld{namespace="shop"} 2
`), "servingcert_flags_withheld"))
	assert.Len(t, l.memory("told"), 1)
	l.put("shop", 0, correct.Memory{})
	l.put("told", 0, nil)
	assert.Empty(t, l.namespaces)
}

func TestAnswersAreForgotten(t *testing.T) {
	a := NewAnswers(&cluster.Cluster{})
	key := probe.Key{Of: pods.NamespacedKey{Namespace: "shop"}, Pod: "one"}
	a.Record(key, []probe.Answer{{Port: 1}})
	a.Record(probe.Key{Of: pods.NamespacedKey{Namespace: "shop", Key: pods.SecretKey("web-tls")}, Pod: "two"}, []probe.Answer{{Port: 2}})
	unready := &pods.Facts{Unready: &pods.Unready{}}
	unready.UID = "one"
	assert.Equal(t, map[types.UID][]probe.Answer{"one": {{Port: 1}}}, a.of("shop", []*pods.Facts{unready}), "of pods that were dialled for a Secret, others take the answers")
	assert.Empty(t, a.of("other", []*pods.Facts{unready}))
	unready.Unready = nil
	assert.Empty(t, a.of("shop", []*pods.Facts{unready}))
	assert.Empty(t, a.pods)
}
