package serving

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

type servingRule struct {
	state   State
	applies func(tally) bool
	status  metav1.ConditionStatus
	reason  string
	text    string // with the Secret's name, or empty
	podKeys string // instead, for pods with their own keys
	advice  func(statement) string
}

// tally is a need of a Service, with the number of its pods in each state.
type tally struct {
	need  api.Need
	total map[State]int
}

// servingRules are evaluated in order for each need of a Service. The first that applies describes the need, and the first of all needs' rules the Service.
var servingRules = []servingRule{
	{stateNotReady, noneReady, metav1.ConditionFalse, api.ServingNoConsumers, "no ready pod of this Service mounts the key of Secret %q",
		"no ready pod of this Service mounts a key", nil},
	{statePropagating, anyIn(statePropagating), metav1.ConditionFalse, api.ServingPropagating, "Secret %q holds a new certificate that not every pod of this Service has loaded yet",
		"not every pod of this Service serves a certificate of the current CA with all names: each pod gets one at its next refresh", nil},
	{stateStale, anyIn(stateStale), metav1.ConditionFalse, api.ServingStale, "an older certificate than the one in Secret %q is still served by ",
		"a certificate that should have been replaced is still served by ", adviceStale},
	{stateNoPort, noTargets, metav1.ConditionUnknown, api.ServingNoPort, "cannot tell which port of the pods that mount Secret %q serves TLS: set targetPort in this Service",
		"cannot tell which port of the pods serves TLS: set targetPort in this Service", nil},
	{stateNoPort, onlyIn(stateNoPort), metav1.ConditionFalse, api.ServingNoPort, "", "", statement.lacking},
	{statePending, anyIn(statePending), metav1.ConditionFalse, api.ServingPropagating, "Secret %q holds a new certificate that not every pod of this Service has loaded yet",
		"not every pod of this Service has been dialled since the CA or the names of its Services changed", nil},
	{stateForeign, anyIn(stateForeign), metav1.ConditionFalse, api.ServingForeign, "a certificate that is not from Secret %q is served by ",
		"a certificate that is not for this Service, or of another CA, is served by ", because(": a service mesh's proxy answers, or the server reads other files")},
	{statePlaintext, anyIn(statePlaintext), metav1.ConditionFalse, api.ServingPlaintext, "the certificate in Secret %q is not served: no TLS at the port of ",
		"the certificate of the pod is not served: no TLS at the port of ", adviceCauses},
	{stateNotVerified, anyIn(stateNotVerified), metav1.ConditionUnknown, api.ServingNotVerified, "cannot tell whether the certificate in Secret %q is served: not verified: ",
		"cannot tell whether the certificates of the pods are served: not verified: ", adviceCauses},
	{stateUnreachable, anyIn(stateUnreachable), metav1.ConditionUnknown, api.ServingUnreachable, "cannot tell whether the certificate in Secret %q is served: no answer from ",
		"cannot tell whether the certificates of the pods are served: no answer from ", because(": the port is closed, a NetworkPolicy blocks the rotator, or the server is too slow")},
	{statePending, noneCurrent, metav1.ConditionFalse, api.ServingPropagating, "Secret %q holds a certificate, and no pod of this Service has been dialled yet",
		"no pod of this Service has been dialled yet", nil},
	{stateCurrent, anyIn(stateCurrent), metav1.ConditionTrue, api.ServingCurrent, "every ready pod of this Service that mounts Secret %q serves its certificate",
		"every ready pod of this Service that has a key of its own serves a certificate that clients accept and that is not overdue", nil},
}

// beyondRule is for a Service that is not considered for all of its pods.
var beyondRule = servingRule{
	stateNotVerified, nil, metav1.ConditionUnknown, api.ServingNotVerified, "cannot tell whether the certificate in Secret %q is served: ",
	"cannot tell whether the certificates of the pods are served: ", func(statement) string {
		return fmt.Sprintf("the Services of one of the pods have more than %d ports and names, and those of older Services are verified", maxTargets)
	},
}

// noneCurrent reports whether no pod is known to serve the certificate; applied to new pods only.
func noneCurrent(t tally) bool { return t.total[stateCurrent] == 0 }

func anyIn(state State) func(tally) bool {
	return func(t tally) bool { return t.total[state] > 0 }
}

// onlyIn returns whether all ready pods are in the state, and some are.
func onlyIn(state State) func(tally) bool {
	return func(t tally) bool {
		for other, n := range t.total {
			if n > 0 && other != state && other != stateNotReady {
				return false
			}
		}
		return t.total[state] > 0
	}
}

// noTargets reports whether no ready pod has a port, and the Service does not set any: the ports
// that clients use are unknown.
func noTargets(t tally) bool { return len(t.need.Targets) == 0 && onlyIn(stateNoPort)(t) }

func noneReady(t tally) bool {
	for state, n := range t.total {
		if state != stateNotReady && n > 0 {
			return false
		}
	}
	return true
}

func because(why string) func(statement) string {
	return func(s statement) string { return s.nameWorkloads() + why }
}

func adviceStale(s statement) string {
	advice := "; annotation " + api.AnnotationOnRotate + " requests a restart: they are restarted, or an event explains why not"
	for _, p := range s.parts {
		if p.states[s.rule.state] > 0 && p.onRotate != api.OnRotateRestart {
			advice = ": restart workloads that do not reload their files, or annotate their pod template " + api.AnnotationOnRotate + ": restart to have that done automatically"
		}
	}
	if slices.ContainsFunc(s.parts, func(p part) bool { return p.distrusted }) {
		advice += "; clients no longer accept the CA of some of them, and only a new pod gets another certificate"
	}
	if slices.ContainsFunc(s.parts, func(p part) bool { return p.unlinked }) {
		advice += "; some of them serve the right certificate without an intermediate that its clients need: tls.crt was corrected since they read it, or they do not send all of it"
	}
	return s.nameWorkloads() + advice
}

// adviceCauses names the workloads in the state, and the causes.
func adviceCauses(s statement) string {
	causes := map[string]bool{}
	for _, p := range s.parts {
		for c := range p.causes {
			if c.state == s.rule.state {
				causes[c.cause.Why(c.protocol)] = true
			}
		}
	}
	if len(causes) == 0 {
		return s.nameWorkloads()
	}
	return s.nameWorkloads() + ": " + strings.Join(slices.Sorted(maps.Keys(causes)), "; ")
}

// nameWorkloads names the workloads with a pod in the rule's state, sorted.
func (s statement) nameWorkloads() string {
	var names []string
	for _, p := range s.parts {
		if p.states[s.rule.state] > 0 {
			names = append(names, p.workload.String())
		}
	}
	slices.Sort(names)
	return api.Listed(slices.Compact(names), maxNamed)
}
