package serving

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// maxWorkloads bounds how many workloads a condition names, for people. All stale
// ones are in the report (package report).
const maxWorkloads = 5

// stateNew is statePending of a pod that came while its Service was followed.
// Until it is dialled, the condition says what the others serve, so that a Service
// whose pods come and go is not undecided for ever.
const stateNew State = "new"

// servingCondition returns the condition that a Service of the Secret is to have, or nil if
// that is undecided and the present one may stay.
func servingCondition(svc *corev1.Service, secret string, groups []group, cert certificate, p Pace, absent time.Duration) *state.Condition {
	said, ok := state.ServingOf(svc)
	return statement{
		fresh: said.Leaf != cert.leaf || !ok, serving: state.Serving{Leaf: cert.leaf, Since: cert.since}, pace: p, absent: absent,
		text: func(rule servingRule, own []group) string {
			if onlyPodKeys(own, rule.state) {
				return rule.podKeys
			}
			return fmt.Sprintf(rule.text, secret)
		},
	}.about(svc, groups)
}

// podKeyCondition is servingCondition for a Service whose pods have keys of their own.
func podKeyCondition(svc *corev1.Service, groups []group, t trusted, p Pace, absent time.Duration) *state.Condition {
	said, ok := state.ServingOf(svc)
	return statement{
		fresh: said.Leaf != "" || !ok && api.Condition(svc, api.ConditionServing) == nil, serving: state.Serving{Since: t.since}, pace: p, absent: absent,
		text: func(rule servingRule, _ []group) string { return rule.podKeys },
	}.about(svc, groups)
}

// statement is what a condition says beside which pods were seen in which state.
type statement struct {
	fresh   bool // the present condition is about another certificate, or there is none
	serving state.Serving
	pace    Pace
	absent  time.Duration // how long there has been no ready pod
	text    func(servingRule, []group) string
}

// about returns the condition of a Service. It names workloads and never pods
// or numbers of them: every change of a Service goes to all nodes.
func (s statement) about(svc *corev1.Service, groups []group) *state.Condition {
	var own []group
	total := map[State]int{}
	for _, g := range groups {
		if !g.concerns(svc) {
			continue
		}
		own = append(own, g)
		for state, n := range g.states {
			total[state] += n
		}
	}
	for _, rule := range servingRules {
		if !rule.applies(total) {
			continue
		}
		undecided := rule.state == statePending || rule.state == stateNotReady && s.absent < s.pace.settle()
		if undecided && !s.fresh {
			return nil
		}
		text := s.text(rule, own)
		if rule.advice != nil {
			text += rule.advice(own, rule.state)
		}
		if _, err := api.ParseProbe(svc); err != nil {
			text += "; ignored: " + err.Error()
		}
		return state.Say(metav1.Condition{Type: api.ConditionServing, Status: rule.status, Reason: rule.reason, Message: text}, s.serving)
	}
	return nil // one of the rules applies
}

// onlyPodKeys reports whether all pods in the state have keys of their own, and some are.
func onlyPodKeys(groups []group, state State) bool {
	podKeys := false
	for _, g := range groups {
		if g.states[state] > 0 && g.key != pods.PodKey {
			return false
		}
		podKeys = podKeys || g.states[state] > 0
	}
	return podKeys
}

type servingRule struct {
	state   State
	applies func(total map[State]int) bool
	status  metav1.ConditionStatus
	reason  string
	text    string // with the Secret's name
	podKeys string // in its place, for pods with keys of their own
	advice  func(groups []group, state State) string
}

// servingRules are asked in order; the first that applies gives the condition.
var servingRules = []servingRule{
	{stateNotReady, noneReady, metav1.ConditionFalse, api.ServingNoConsumers, "no ready pod of this Service mounts the key of Secret %q",
		"no ready pod of this Service mounts a key", nil},
	{statePropagating, anyIn(statePropagating), metav1.ConditionFalse, api.ServingPropagating, "Secret %q holds a new certificate that not every pod of this Service has loaded yet",
		"not every pod of this Service serves a certificate of the CA that signs now with all names: each pod gets one at its next refresh", nil},
	{stateStale, anyIn(stateStale), metav1.ConditionFalse, api.ServingStale, "an older certificate than the one in Secret %q is still served by ",
		"a certificate that should have been replaced is still served by ", adviceStale},
	{statePending, anyIn(statePending), metav1.ConditionFalse, api.ServingPropagating, "Secret %q holds a new certificate that not every pod of this Service has loaded yet",
		"not every pod of this Service has been dialled since the CA or the names of its Services changed", nil},
	{stateForeign, anyIn(stateForeign), metav1.ConditionFalse, api.ServingForeign, "a certificate that is not from Secret %q is served by ",
		"a certificate that is not for this Service, or of another CA, is served by ", because(": a service mesh's proxy answers, or the server reads other files")},
	{statePlaintext, anyIn(statePlaintext), metav1.ConditionFalse, api.ServingPlaintext, "the certificate in Secret %q is not served: no TLS at the port of ",
		"the certificate of the pod is not served: no TLS at the port of ", adviceCauses},
	{stateNotVerified, anyIn(stateNotVerified), metav1.ConditionUnknown, api.ServingNotVerified, "cannot tell whether the certificate in Secret %q is served: not verified is ",
		"cannot tell whether the certificates of the pods are served: not verified is ", adviceCauses},
	{stateUnreachable, anyIn(stateUnreachable), metav1.ConditionUnknown, api.ServingUnreachable, "cannot tell whether the certificate in Secret %q is served: no answer from ",
		"cannot tell whether the certificates of the pods are served: no answer from ", because(": the port is closed, a NetworkPolicy blocks the rotator, or the server is too slow")},
	{stateCurrent, anyIn(stateCurrent), metav1.ConditionTrue, api.ServingCurrent, "every ready pod of this Service that mounts Secret %q serves its certificate",
		"every ready pod of this Service serves a certificate that clients accept and that is not overdue", nil},
	{statePending, anyIn(stateNew), metav1.ConditionFalse, api.ServingPropagating, "Secret %q holds a certificate, and no pod of this Service has been dialled yet",
		"no pod of this Service has been dialled yet", nil},
	{stateNoPort, anyIn(stateNoPort), metav1.ConditionUnknown, api.ServingNoPort, "cannot tell which port of the pods that mount Secret %q serves TLS: set targetPort in this Service",
		"cannot tell which port of the pods serves TLS: set targetPort in this Service", nil},
}

func anyIn(state State) func(map[State]int) bool {
	return func(total map[State]int) bool { return total[state] > 0 }
}

func noneReady(total map[State]int) bool {
	for state, n := range total {
		if state != stateNotReady && n > 0 {
			return false
		}
	}
	return true
}

func because(why string) func([]group, State) string {
	return func(groups []group, state State) string { return nameWorkloads(groups, state) + why }
}

func adviceStale(groups []group, state State) string {
	advice := "; annotation " + api.AnnotationOnRotate + " asks for a restart: they are restarted, or an event says why not"
	for _, g := range groups {
		if g.states[state] > 0 && g.onRotate != api.OnRotateRestart {
			advice = ": restart what does not reload its files, or annotate its pod template " + api.AnnotationOnRotate + ": restart to have that done automatically"
		}
	}
	if slices.ContainsFunc(groups, func(g group) bool { return g.distrusted }) {
		advice += "; clients do not accept the CA of some any more, and only a new pod gets another certificate"
	}
	return nameWorkloads(groups, state) + advice
}

// adviceCauses says which workloads are in the state, and why.
func adviceCauses(groups []group, state State) string {
	causes := map[string]bool{}
	for _, g := range groups {
		for c := range g.causes {
			if c.state == state {
				causes[c.cause.Why(c.protocol)] = true
			}
		}
	}
	if len(causes) == 0 {
		return nameWorkloads(groups, state)
	}
	return nameWorkloads(groups, state) + ": " + strings.Join(slices.Sorted(maps.Keys(causes)), "; ")
}

// nameWorkloads names those with a pod in the state, sorted.
func nameWorkloads(groups []group, state State) string {
	var names []string
	for _, g := range groups {
		if g.states[state] > 0 {
			names = append(names, g.workload.String())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - maxWorkloads; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxWorkloads], ", "), more)
	}
	return strings.Join(names, ", ")
}

// notVerified returns the condition of a Service whose pods nobody dials, in place
// of what was seen before; nil if it has none, or that one.
func notVerified(svc *corev1.Service) *state.Condition {
	has := state.Of(svc, api.ConditionServing)
	if has == nil {
		return nil
	}
	seen, _ := state.ServingOf(svc)
	want := state.Say(metav1.Condition{
		Type: api.ConditionServing, Status: metav1.ConditionUnknown, Reason: api.ServingNotVerified, Message: "pods are not dialled (--verify-consumers=false)",
	}, seen)
	if state.Same(has, want) {
		return nil
	}
	return want
}
