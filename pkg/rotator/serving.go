package rotator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// maxWorkloads bounds how many workloads a condition names.
const maxWorkloads = 5

// stateNew is StatePending of a pod that came while its Service was looked after:
// until it is asked, what the others serve is what there is to say, so that a
// Service whose pods come and go is not undecided for ever.
const stateNew State = "new"

// crowd is pods of one workload that are the business of the same Services.
type crowd struct {
	workload Workload
	onRotate api.OnRotate
	services []*corev1.Service
	states   map[State]int
}

// servingCondition returns what there is to say of the Service, or nil if that is
// undecided and what it says may stay. It names workloads and never pods or
// numbers of them: every change of a Service goes to all nodes.
//
// absent is how long no ready pod has mounted the Secret.
func servingCondition(svc *corev1.Service, secret string, crowds []crowd, cert certificate, p pace, absent time.Duration) *metav1.Condition {
	var ours []crowd
	total := map[State]int{}
	for _, c := range crowds {
		if !slices.Contains(c.services, svc) {
			continue
		}
		ours = append(ours, c)
		for state, n := range c.states {
			total[state] += n
		}
	}
	said, ok := api.ServingOf(svc)
	fresh := !ok || said.Leaf != cert.leaf
	for _, rule := range servingRules {
		if !rule.applies(total) {
			continue
		}
		undecided := rule.state == StatePending || rule.state == StateNotReady && absent < p.settle()
		if undecided && !fresh {
			return nil
		}
		words := fmt.Sprintf(rule.words, secret)
		if rule.advice != nil {
			words += rule.advice(ours, rule.state)
		}
		return &metav1.Condition{
			Type: api.ConditionServing, Status: rule.status, Reason: rule.reason,
			Message: api.ServingFacts{Leaf: cert.leaf, Since: cert.since}.Message(words),
		}
	}
	return nil // one of the rules applies
}

// servingRules are asked in order; the first that applies is what is said.
var servingRules = []struct {
	state   State
	applies func(total map[State]int) bool
	status  metav1.ConditionStatus
	reason  string
	words   string // with the Secret's name
	advice  func(crowds []crowd, state State) string
}{
	{StateNotReady, noneReady, metav1.ConditionFalse, api.ServingNoConsumers, "no ready pod of this Service mounts the key of Secret %q", nil},
	{StatePropagating, anyIn(StatePropagating), metav1.ConditionFalse, api.ServingPropagating, "a new certificate is in Secret %q, and not every pod of this Service has loaded it yet", nil},
	{StateStale, anyIn(StateStale), metav1.ConditionFalse, api.ServingStale, "an older certificate than the one in Secret %q is still served by ", adviceStale},
	{StatePending, anyIn(StatePending), metav1.ConditionFalse, api.ServingPropagating, "a new certificate is in Secret %q, and not every pod of this Service has loaded it yet", nil},
	{StateForeign, anyIn(StateForeign), metav1.ConditionFalse, api.ServingForeign, "another certificate than the one in Secret %q is served by ", because(": a mesh's proxy answers, or the server reads other files")},
	{StatePlaintext, anyIn(StatePlaintext), metav1.ConditionFalse, api.ServingPlaintext, "the certificate in Secret %q is not served: no TLS is spoken at the port of ", because("")},
	{StateUnreachable, anyIn(StateUnreachable), metav1.ConditionUnknown, api.ServingUnreachable, "whether the certificate in Secret %q is served is unknown: no answer from ", because(": the port is closed, the way to it is barred (NetworkPolicy), or the server is too slow")},
	{StateCurrent, anyIn(StateCurrent), metav1.ConditionTrue, api.ServingCurrent, "every ready pod of this Service that mounts Secret %q serves its certificate", nil},
	{StatePending, anyIn(stateNew), metav1.ConditionFalse, api.ServingPropagating, "a certificate is in Secret %q, and no pod of this Service was asked for it yet", nil},
	{StateNoPort, anyIn(StateNoPort), metav1.ConditionUnknown, api.ServingNoPort, "nothing tells a TCP port of the pods that mount Secret %q: a targetPort of this Service must", nil},
}

func anyIn(state State) func(map[State]int) bool {
	return func(total map[State]int) bool { return total[state] > 0 }
}

func noneReady(total map[State]int) bool {
	for state, n := range total {
		if state != StateNotReady && n > 0 {
			return false
		}
	}
	return true
}

func because(why string) func([]crowd, State) string {
	return func(crowds []crowd, state State) string { return nameWorkloads(crowds, state) + why }
}

func adviceStale(crowds []crowd, state State) string {
	advice := "; they are restarted, as " + api.AnnotationOnRotate + " asks, or an event says why not"
	for _, c := range crowds {
		if c.states[state] > 0 && c.onRotate != api.OnRotateRestart {
			advice = ": what does not reload its files must be restarted; with " + api.AnnotationOnRotate + ": restart on its pod template that is done for it"
		}
	}
	return nameWorkloads(crowds, state) + advice
}

// nameWorkloads names those with a pod in the state, sorted.
func nameWorkloads(crowds []crowd, state State) string {
	var names []string
	for _, c := range crowds {
		if c.states[state] > 0 {
			names = append(names, c.workload.String())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - maxWorkloads; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxWorkloads], ", "), more)
	}
	return strings.Join(names, ", ")
}

// String returns the workload's kind and name.
func (w Workload) String() string {
	if w == (Workload{}) {
		return "pods that no workload made"
	}
	return w.Kind + " " + w.Name
}

// notVerified is what is said where nobody looks, in place of what was seen once;
// nil if the Service says nothing, or that.
func notVerified(svc *corev1.Service) *metav1.Condition {
	has := api.Condition(svc, api.ConditionServing)
	if has == nil || has.Reason == api.ServingNotVerified {
		return nil
	}
	message := "nobody looks at what pods serve (--verify-consumers=false)"
	if facts, ok := api.ServingOf(svc); ok {
		message = facts.Message(message)
	}
	return &metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionUnknown, Reason: api.ServingNotVerified, Message: message}
}

// byName orders crowds, so that equal worlds give equal words.
func byName(a, b crowd) int {
	return cmp.Or(cmp.Compare(a.workload.Kind, b.workload.Kind), cmp.Compare(a.workload.Name, b.workload.Name), cmp.Compare(a.onRotate, b.onRotate))
}
