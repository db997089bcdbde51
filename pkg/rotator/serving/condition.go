package serving

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// maxNamed bounds how many workloads a condition names, and how many ports.
const maxNamed = state.MaxStale

// stateNew is statePending of a pod that came while its Service was followed.
// Until it is dialled, the condition says what the others serve, so that a Service
// whose pods come and go is not undecided for ever.
const stateNew State = "new"

// servingStatement returns what the condition of a Service of the Secret is to say.
func servingStatement(svc *corev1.Service, secret string, groups []group, cert certificate) statement {
	said, ok := state.ServingOf(svc)
	s := newStatement(svc, groups, said, state.Serving{Leaf: cert.leaf, Since: cert.since})
	s.secret, s.fresh = secret, said.Leaf != cert.leaf || !ok
	return s
}

// podKeyStatement is servingStatement for a Service whose pods have keys of their own.
func podKeyStatement(svc *corev1.Service, groups []group, t trusted) statement {
	said, ok := state.ServingOf(svc)
	s := newStatement(svc, groups, said, state.Serving{Since: t.since})
	s.fresh = said.Leaf != "" || !ok && api.Condition(svc, api.ConditionServing) == nil
	return s
}

// statement is what a condition is to say: of all that the Service needs, what the first of
// servingRules that applies to any of it says.
type statement struct {
	service *corev1.Service
	secret  string // empty for keys of the pods' own
	serving state.Serving
	// fresh: the present condition is about another certificate, or there is none. otherPorts:
	// it is about other ports.
	fresh, otherPorts bool

	rule  servingRule
	needs []api.Need // to which the rule applies, and all is how many there are
	all   int
	parts []part // what was seen of these needs
}

// part is what was seen of one group for one need.
type part struct {
	group
	sighting
}

func newStatement(svc *corev1.Service, groups []group, said, serving state.Serving) statement {
	s := statement{service: svc, serving: serving, otherPorts: !said.AboutPorts(svc)}
	s.serving.Ports = api.NeedsHash(svc)
	own := slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !g.concerns(svc) })
	first := len(servingRules)
	for _, n := range api.Needs(svc) {
		key := need{svc.UID, n.String()}
		if n.Declared && slices.ContainsFunc(own, func(g group) bool { return g.declares(key) }) {
			continue // the port is the program's own
		}
		s.all++
		parts := make([]part, len(own))
		total := map[State]int{}
		for i, g := range own {
			parts[i] = part{g, g.of(key)}
			for state, n := range parts[i].states {
				total[state] += n
			}
		}
		i := slices.IndexFunc(servingRules, func(r servingRule) bool { return r.applies(total) }) // one does
		switch {
		case i < first:
			first, s.needs, s.parts = i, []api.Need{n}, parts
		case i == first:
			s.needs, s.parts = append(s.needs, n), append(s.parts, parts...)
		}
	}
	s.rule = servingRules[first]
	return s
}

// lacks reports whether the Service has no ready pod, or none with one of its ports.
func (s statement) lacks() bool { return s.rule.state == stateNotReady || s.rule.state == stateNoPort }

// condition returns the condition that the Service is to have, or nil if that is undecided and the
// present one may stay. settled: what the Service lacks, it has lacked for a while. It names
// workloads and never pods or numbers of them: every change of a Service goes to all nodes.
func (s statement) condition(settled bool) *state.Condition {
	undecided := s.rule.state == statePending || s.lacks() && !settled
	if undecided && !s.fresh && !s.otherPorts {
		return nil
	}
	c := metav1.Condition{Type: api.ConditionServing, Status: s.rule.status, Reason: s.rule.reason, Message: s.text()}
	if s.rule.state == stateNoPort && len(s.needs[0].Targets) == 0 {
		c.Status = metav1.ConditionUnknown // which ports clients use
	}
	if _, err := api.ParseProbe(s.service); err != nil {
		c.Message += "; ignored: " + err.Error()
	}
	if s.rule.state == stateStale {
		s.serving.Stale = staleWorkloads(s.parts)
	}
	return state.Say(c, s.serving)
}

// staleWorkloads returns the first workloads with a stale pod, sorted.
func staleWorkloads(parts []part) []state.StaleWorkload {
	var out []state.StaleWorkload
	for _, p := range parts {
		if p.states[stateStale] > 0 {
			out = append(out, state.StaleWorkload{Kind: p.workload.Kind, Name: p.workload.Name, OnRotate: p.onRotate})
		}
	}
	slices.SortFunc(out, func(a, b state.StaleWorkload) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.OnRotate, b.OnRotate))
	})
	out = slices.Compact(out)
	return out[:min(len(out), maxNamed)]
}

// text returns the message.
func (s statement) text() string {
	text := s.rule.podKeys
	if s.secret != "" && !onlyPodKeys(s.parts, s.rule.state) {
		text = fmt.Sprintf(s.rule.text, s.secret)
	}
	if s.rule.advice != nil {
		text += s.rule.advice(s.parts, s.rule.state)
	}
	switch {
	case s.rule.state == stateNoPort && len(s.needs[0].Targets) > 0:
		return s.lacking()
	case s.lacks():
		return text
	case s.rule.state == stateCurrent && s.all == 1 && len(s.needs[0].Targets) > 1:
		return text + "; no port of this Service is named as one of TLS, so that one is enough: let the names of those that are begin with https or tls"
	case s.rule.state == stateCurrent:
		return text
	case s.rule.state == statePending && s.otherPorts && !s.fresh:
		return s.ports() + "not every pod of this Service has been dialled there yet"
	case s.all > 1:
		return s.ports() + text
	}
	return text
}

// ports names those of the needs, as the beginning of a sentence.
func (s statement) ports() string {
	if len(s.needs) == 1 {
		return "targetPort " + s.needs[0].String() + ": "
	}
	var names []string
	for _, n := range s.needs {
		names = append(names, n.String())
	}
	return "targetPorts " + api.Listed(names, maxNamed) + ": "
}

// lacking says which ports no ready pod has, and what to do about each.
func (s statement) lacking() string {
	var texts []string
	for _, n := range s.needs[:min(len(s.needs), maxNamed)] {
		name := n.Targets[0].Target.StrVal
		do := "declare a port of that name in a container, or set its number in this Service"
		if _, asks := api.ParseProxyPort(name); asks {
			do = "pods get a proxy when they are created: restart them, or see why in their annotation " + api.AnnotationStatus
		} else if api.LooksLikeProxyPort(name) {
			do = api.MustBeProxyPort
		}
		texts = append(texts, "no ready pod of this Service has targetPort "+n.String()+": "+do)
	}
	if more := len(s.needs) - maxNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("nor %d more of its ports", more))
	}
	return strings.Join(texts, "; ")
}

// onlyPodKeys reports whether all pods in the state have keys of their own, and some are.
func onlyPodKeys(parts []part, state State) bool {
	podKeys := false
	for _, p := range parts {
		if p.states[state] > 0 && p.key != pods.PodKey {
			return false
		}
		podKeys = podKeys || p.states[state] > 0
	}
	return podKeys
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
