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

// maxNamed bounds how many workloads, and how many ports, a condition names.
const maxNamed = state.MaxStale

// stateNew is statePending of a pod that became ready after the first decision. Until it is
// dialled, the condition is about the other pods, so that frequent new pods do not keep it
// undecided.
const stateNew State = "new"

// servingStatement returns the statement about a Service of the Secret.
func servingStatement(svc *corev1.Service, secret string, seen Seen, cert certificate) statement {
	recorded, ok := state.ServingOf(svc)
	s := newStatement(svc, seen, recorded, state.Serving{Leaf: cert.leaf, Since: cert.since})
	s.secret, s.fresh = secret, recorded.Leaf != cert.leaf || !ok
	return s
}

// podKeyStatement is servingStatement for a Service whose pods have their own keys.
func podKeyStatement(svc *corev1.Service, seen Seen, t trusted) statement {
	recorded, ok := state.ServingOf(svc)
	s := newStatement(svc, seen, recorded, state.Serving{Since: t.since})
	s.fresh = recorded.Leaf != "" || !ok && api.Condition(svc, api.ConditionServing) == nil
	return s
}

// statement is the content of a condition: of all needs of the Service, those to which the first of
// servingRules applies.
type statement struct {
	service *corev1.Service
	secret  string // empty if the pods have their own keys
	serving state.Serving
	// fresh: the existing condition is about another certificate, or missing. otherPorts: it is
	// about other ports.
	fresh, otherPorts bool
	unasked           bool   // see isUnasked
	doubt             string // see unless
	keyless           string // see unlessKeyless
	guard             *guardStatement

	rule  servingRule
	needs []api.Need // to which the rule applies
	all   int        // number of all needs
	parts []part     // observations about these needs
}

// part is the observation of one group for one need.
type part struct {
	group
	sighting
}

func newStatement(svc *corev1.Service, seen Seen, recorded, serving state.Serving) statement {
	s := statement{service: svc, serving: serving, unasked: isUnasked(svc)}
	s.serving.Ports = api.NeedsHash(svc)
	s.otherPorts = recorded.Ports != s.serving.Ports
	own := slices.DeleteFunc(slices.Clone(seen.groups), func(g group) bool { return !g.concerns(svc) })
	s.guard = newGuardStatement(svc, own, seen.beyond[svc.UID])
	if seen.beyond[svc.UID] {
		s.rule = beyondRule
		return s
	}
	first := len(servingRules)
	for _, n := range api.Needs(svc) {
		key := need{svc.UID, n.String()}
		if n.Declared && slices.ContainsFunc(own, func(g group) bool { return g.declares(key) }) {
			continue // the program serves the port itself
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
		i := slices.IndexFunc(servingRules, func(r servingRule) bool { return r.applies(tally{n, total}) }) // one does
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

// lacks reports whether the Service has no ready pod, or no ready pod has one of its ports.
func (s statement) lacks() bool { return s.rule.state == stateNotReady || s.rule.state == stateNoPort }

// silent reports whether the Service gets no condition: nobody asks its pods to serve, and they were seen not to serve a
// certificate of the Secret.
func (s statement) silent() bool { return s.unasked && !slices.Contains(ofSecret, s.rule.state) }

// condition returns the Service's new condition; nil if the state is undecided and the existing one
// may stay. confirmed: the lack has lasted for a while. The message names workloads, never pods or
// their number: every change of a Service is sent to all nodes.
func (s statement) condition(confirmed bool) *state.Condition {
	undecided := s.rule.state == statePending || s.lacks() && !confirmed
	if undecided && (s.unasked || !s.fresh && !s.otherPorts) {
		return nil
	}
	c := metav1.Condition{Type: api.ConditionServing, Status: s.rule.status, Reason: s.rule.reason, Message: s.text()}
	if _, err := api.ParseProbe(s.service); err != nil {
		c.Message += "; ignored: " + err.Error()
	}
	if s.rule.state == stateStale {
		s.serving.Stale = staleWorkloads(s.parts)
	}
	return state.Say(c, s.serving)
}

// staleWorkloads returns the workloads with a stale pod, sorted, at most maxNamed.
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
	if s.rule.text != "" && s.secret != "" && !onlyPodKeys(s.parts, s.rule.state) {
		text = fmt.Sprintf(s.rule.text, s.secret)
	}
	if s.rule.advice != nil {
		text += s.rule.advice(s)
	}
	switch {
	case s.lacks(), s.doubt != "", s.keyless != "":
		return text
	case s.rule.state == stateCurrent && s.all == 1 && len(s.needs[0].Targets) > 1:
		return text + "; no port of this Service has a name of a TLS port, so one port with TLS is enough: begin the names of TLS ports with https or tls"
	case s.rule.state == stateCurrent:
		return text
	case s.rule.state == statePending && s.otherPorts && !s.fresh:
		return s.ports() + "not every pod of this Service has been dialled there yet"
	case s.all > 1:
		return s.ports() + text
	}
	return text
}

// ports returns the targetPorts of the needs as the beginning of a sentence.
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

// lacking names the ports that no ready pod has, and the action for each.
func (s statement) lacking() string {
	var texts []string
	for _, n := range s.needs[:min(len(s.needs), maxNamed)] {
		name := n.Targets[0].Target.StrVal
		do := "declare a port of that name in a container, or set the port's number in this Service"
		if _, asks := api.ParseProxyPort(name); asks {
			do = "pods get a proxy at creation: restart them, or read the reason in their annotation " + api.AnnotationStatus
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

// onlyPodKeys reports whether there are pods in the state, and all of them have their own keys.
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

// notDialled is the message of the conditions if pods are not dialled.
const notDialled = "pods are not dialled (--verify-consumers=false)"

// notVerified returns the condition of a Service whose pods are not dialled, to replace the
// existing one; nil if there is none or it is the same.
func notVerified(svc *corev1.Service) *state.Condition {
	has := state.Of(svc, api.ConditionServing)
	if has == nil {
		return nil
	}
	seen, _ := state.ServingOf(svc)
	want := state.Say(metav1.Condition{
		Type: api.ConditionServing, Status: metav1.ConditionUnknown, Reason: api.ServingNotVerified, Message: notDialled,
	}, seen)
	if state.Same(has, want) {
		return nil
	}
	return want
}
