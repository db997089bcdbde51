package restart

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

func TestEvaluate(t *testing.T) {
	type world struct {
		w  *serving.StaleWorkload
		st *WorkloadStatus
		s  *Situation
		a  *answers
	}
	rolling := func(st *WorkloadStatus) { st.progress.done = false }
	tests := []struct {
		name    string
		of      pods.Workload
		change  func(world)
		want    Hold // empty: it is restarted
		message string
	}{
		{"nothing", webWorkload, func(world) {}, "", ""},
		{"nothing, a StatefulSet", setWorkload, func(world) {}, "", ""},
		{"nothing, a DaemonSet", pods.Workload{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "u"}, func(world) {}, "", ""},
		{"bare pods", pods.Workload{}, func(world) {}, holdNotRestartable, "no controller would recreate the pods"},
		{"a Job", pods.Workload{APIVersion: "batch/v1", Kind: "Job", Name: "once", UID: "u"}, func(world) {}, holdNotRestartable, "restarting a Job is not supported"},
		{"a ReplicaSet", pods.Workload{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "u"}, func(world) {}, holdNotRestartable, "restarting a ReplicaSet is not supported"},
		{"a Rollout of Argo's", pods.Workload{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "web", UID: "u"}, func(world) {}, holdNotRestartable, "restarting a Rollout is not supported"},
		{"another Deployment", pods.Workload{APIVersion: "example.com/v1", Kind: "Deployment", Name: "web", UID: "u"}, func(world) {}, holdNotRestartable, "restarting a Deployment is not supported"},
		{"restarts are off", webWorkload, func(w world) { w.s.Limits.Max, w.s.free = 0, 0 }, holdOff, "--max-restarts is 0"},
		{"it may not be read", webWorkload, func(w world) { w.st.Problem = "deployments.apps is forbidden" }, holdForbidden, "is forbidden"},
		{"it is gone", webWorkload, func(w world) { w.st.Gone = true }, holdGone, "Deployment web no longer exists"},
		{"it is being deleted", webWorkload, func(w world) { w.st.deleting = true }, holdDeleting, ""},
		{"another of its name", setWorkload, func(w world) { w.st.uid = "another" }, holdNotOwner, "StatefulSet db did not create the pods"},
		{"a Deployment that does not select them", webWorkload, func(w world) { w.s.Labels["web-1"] = map[string]string{"app": "x"} }, holdNotOwner, ""},
		{"its selector is too large", webWorkload, func(w world) { w.st.selector = nil },
			holdNotOwner, "Deployment web has a selector or pod labels that are too large (at most 64 requirements with 4096 bytes, and 8192 bytes of labels)"},
		{"the pod is gone", webWorkload, func(w world) { delete(w.s.Labels, "web-1") }, holdNoPods, ""},
		{"its template does not ask", webWorkload, func(w world) { w.st.asks = false }, holdNotAsked, "its pod template does not"},
		{"restarted since", webWorkload, func(w world) { w.st.restartedAt = leafSince.Add(time.Minute) }, holdRestarted, "restarted at 2026-03-01T11:01:00Z"},
		{"restarted in the same second", webWorkload, func(w world) { w.st.restartedAt, w.w.Since = leafSince, leafSince.Add(300*time.Millisecond) }, "", ""},
		{"restarted in the next second", webWorkload, func(w world) {
			w.st.restartedAt, w.w.Since = leafSince.Add(time.Second), leafSince.Add(900*time.Millisecond)
		}, holdRestarted, ""},
		{"restarted before", webWorkload, func(w world) { w.st.restartedAt = leafSince.Add(-time.Second) }, "", ""},
		{"restarted since and rolling", webWorkload, func(w world) { w.st.restartedAt = restartNow; rolling(w.st) }, holdRolling, ""},
		{"rolling for another reason", webWorkload, func(w world) { rolling(w.st) }, holdRolling, "it is rolling out"},
		{"a stuck rollout of its owner", webWorkload, func(w world) { rolling(w.st); w.st.progress.exceeded = true }, holdStuck, "pods: 2, new: 2, ready: 2"},
		{"paused", webWorkload, func(w world) { w.st.paused = true }, holdPaused, "kubectl rollout resume"},
		{"paused while rolling", webWorkload, func(w world) { w.st.paused = true; rolling(w.st) }, holdPaused, ""},
		{"OnDelete", setWorkload, func(w world) { w.st.onDelete = true }, holdOnDelete, ""},
		{"scaled to 0", webWorkload, func(w world) { w.st.wanted = 0 }, holdNoPods, ""},
		{"the Service is not ready", webWorkload, func(w world) { w.a.services["web"] = ServiceStatus{false, "new"} }, holdNotReady, "Service web is not ready"},
		{"the Service names a newer leaf", webWorkload, func(w world) { w.a.services["web"] = ServiceStatus{true, "newer"} }, holdNotReady, ""},
		{"the Service is gone", webWorkload, func(w world) { w.a.services["web"] = ServiceStatus{} }, holdNotReady, ""},
		{"a budget allows it", webWorkload, func(w world) { w.a.budgets = []policyv1.PodDisruptionBudget{budget("b", 1, "web")} }, "", ""},
		{"a budget of others", webWorkload, func(w world) { w.a.budgets = []policyv1.PodDisruptionBudget{budget("b", 0, "other")} }, "", ""},
		{"a budget for other pods", webWorkload, func(w world) {
			w.a.budgets = []policyv1.PodDisruptionBudget{budget("b", 0, "web")}
			w.a.budgets[0].Spec.Selector = nil
		}, "", ""},
		{"a budget does not", webWorkload, func(w world) { w.a.budgets = []policyv1.PodDisruptionBudget{budget("b", 0, "web")} },
			holdBudget, "PodDisruptionBudget b allows no disruption now (1 of 2 pods healthy, 1 needed)"},
		{"one of two budgets does not", webWorkload, func(w world) {
			w.a.budgets = []policyv1.PodDisruptionBudget{budget("a", 1, "web"), budget("b", 0, "web")}
		}, holdBudget, "PodDisruptionBudget b allows"},
		{"a budget for all does not", webWorkload, func(w world) {
			w.a.budgets = []policyv1.PodDisruptionBudget{budget("b", 0, "")}
			w.a.budgets[0].Spec.Selector = &metav1.LabelSelector{}
		}, holdBudget, ""},
		{"a budget is new", webWorkload, func(w world) {
			w.a.budgets = []policyv1.PodDisruptionBudget{budget("b", 1, "web")}
			w.a.budgets[0].Generation = 2
		}, holdBudget, "b was not evaluated yet"},
		{"the selector of a budget is too large", webWorkload, func(w world) {
			w.a.budgets = []policyv1.PodDisruptionBudget{budget("a", 1, "web"), budget("b", 1, "other")}
			w.a.budgets[1].Spec.Selector = webExcept(make([]string, 1<<20)...)
		}, holdBudget, "PodDisruptionBudget b has a selector that is too large (at most 64 requirements, and 4096 bytes of keys and values)"},
		{"as many budgets as are read", webWorkload, func(w world) {
			w.a.budgets = slices.Repeat([]policyv1.PodDisruptionBudget{budget("b", 1, "web")}, 1000)
		}, "", ""},
		{"more budgets", webWorkload, func(w world) {
			w.a.budgets = slices.Repeat([]policyv1.PodDisruptionBudget{budget("b", 1, "other")}, 1001)
		}, holdBudget, "its namespace has more than 1000 PodDisruptionBudgets"},
		{"many budgets do not", webWorkload, func(w world) {
			w.a.budgets = slices.Repeat([]policyv1.PodDisruptionBudget{budget("b", 0, "web")}, 1000)
		}, holdBudget, "(1 of 2 pods healthy, 1 needed); and 997 more"},
		{"the budgets may not be read", webWorkload, func(w world) { w.s.BudgetProblem = "poddisruptionbudgets.policy is forbidden" }, holdForbidden, "is forbidden"},
		{"no place in the cluster", webWorkload, func(w world) { w.s.free = 0 }, holdFull, ""},
		{"refused before", webWorkload, func(w world) {
			w.s.history.refused = map[Key]refusal{KeyOf(*w.w): {restartNow, "denied by policy x"}}
		}, holdRefused, "denied by policy x"},
		{"taken back", webWorkload, func(w world) {
			w.s.history.restarted = map[Key]time.Time{KeyOf(*w.w): restartNow.Add(-time.Minute)}
		}, holdUndone, "restarted at 2026-03-01T11:59:00Z, and annotation kubectl.kubernetes.io/restartedAt was removed or reverted"},
		{"taken back for another certificate", webWorkload, func(w world) {
			before := *w.w
			before.Leaf = "old"
			w.s.history.restarted = map[Key]time.Time{KeyOf(before): restartNow.Add(-time.Minute)}
		}, "", ""},
		{"pods with keys of their own, which have no leaf in common", webWorkload, func(w world) {
			w.w.Key, w.w.Leaf = pods.PodKey, ""
		}, "", ""},
		{"taken back for an earlier key of the pods", webWorkload, func(w world) {
			w.w.Key, w.w.Leaf = pods.PodKey, ""
			w.s.history.restarted = map[Key]time.Time{KeyOf(*w.w): w.w.Since.Add(-time.Minute)}
		}, "", ""},
		{"taken back for this key of the pods", webWorkload, func(w world) {
			w.w.Key, w.w.Leaf = pods.PodKey, ""
			w.s.history.restarted = map[Key]time.Time{KeyOf(*w.w): w.w.Since}
		}, holdUndone, "was removed or reverted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := staleOf(tt.of)
			a, s, st := answersFor(w), situationOf(w), statusFor(tt.of)
			tt.change(world{&w, &st, &s, a})
			s.Stale[0], a.workloads[tt.of] = w, st
			d := a.decide(t, s)
			if tt.want == "" {
				require.Empty(t, d.Held)
				require.NotNil(t, d.Start)
				assert.Equal(t, w, d.Start.Stale)
				return
			}
			require.Nil(t, d.Start)
			require.Len(t, d.Held, 1)
			assert.Equal(t, tt.want, d.Held[0].Hold)
			assert.Contains(t, d.Held[0].Message, tt.message)
			assert.NotEmpty(t, d.Held[0].Message)
		})
	}
}

// Holds that need a person are reported. Others end by themselves, are checked again, and cause no
// alert.
func TestHolds(t *testing.T) {
	alerts, err := os.ReadFile("../../../deploy/alerts.yaml")
	require.NoError(t, err)
	quiet := regexp.MustCompile(`servingcert_restarts_held\{reason!~"([A-Za-z|]+)"\}`).FindSubmatch(alerts)
	require.NotNil(t, quiet)
	passing := strings.Split(string(quiet[1]), "|")
	for _, h := range []Hold{
		holdNotRestartable, holdOff, holdGone, holdNotOwner, holdOnDelete, holdRestarted, holdForbidden, holdRefused, holdUndone, holdNotAsked,
		holdPaused, holdNotReady, holdBudget, holdStuck, holdBehind, holdRolling, holdDeleting, holdNoPods, holdTurn, holdFull,
	} {
		assert.Equal(t, h.Passes(), slices.Contains(passing, string(h)), h)
		assert.True(t, !h.Passes() || !h.ByHand(), h)
		assert.True(t, !h.Passes() || h.lookAgain(testLimits) > 0, h)
		assert.True(t, h.ByHand() || h.lookAgain(testLimits) > 0, h)
	}
}
