package serving

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// guarding is what was seen of the ready pods of a group at one set of ports: whether they refuse strangers.
type guarding struct {
	states map[GuardState]int
	// admits is the first pod, by name, that admitted a stranger.
	admits admission
	causes map[probe.Cause]bool // of guardNotSeen
	// unseen counts new pods that were not dialled yet; see stateNew.
	unseen int
}

// admission is how a pod admitted a stranger.
type admission struct {
	pod  string
	port uint16
	who  probe.Stranger
}

func (a admission) String() string {
	return fmt.Sprintf("port %d of pod %s admitted a client %s", a.port, a.pod, a.who)
}

// first returns the one with the lesser name of the pod; one without a pod is none.
func (a admission) first(b admission) admission {
	if a.pod == "" || b.pod != "" && b.pod < a.pod {
		return b
	}
	return a
}

func newGuarding() guarding {
	return guarding{states: map[GuardState]int{}, causes: map[probe.Cause]bool{}}
}

func (g guarding) equal(other guarding) bool {
	return maps.Equal(g.states, other.states) && maps.Equal(g.causes, other.causes) && g.admits == other.admits && g.unseen == other.unseen
}

// add adds a ready pod at a set of its endpoint's ports. Each of the ports counts.
func (g *guarding) add(c consumer, i int, isNew bool, p Pace) {
	worst := len(byDanger)
	for _, port := range c.endpoint.sets[i] {
		is, what := c.guardAt(port, p)
		worst = min(worst, slices.Index(byDanger, is))
		switch is {
		case guardAdmits:
			g.admits = g.admits.first(admission{c.pod.Name, port, what.Stranger})
		case guardNotSeen:
			g.causes[what.Cause] = true
		}
	}
	if c.endpoint.cut[i] || worst == len(byDanger) {
		worst = min(worst, slices.Index(byDanger, guardNotSeen))
		g.causes[probe.CauseManyPorts] = true
	}
	if byDanger[worst] == guardPending && isNew {
		g.unseen++
		return
	}
	g.states[byDanger[worst]]++
}

// guardStatement is the content of condition Guarded of a Service with a list of clients.
type guardStatement struct {
	service *corev1.Service
	// open are the targetPorts that lead to no proxy.
	open []string
	// watches: the Service's own list has api.ClientsWatch.
	watches bool
	beyond  bool // see Seen
	// notReady: one of its pods is not ready.
	notReady bool
	seen     guarding
	// workloads are the names of those with a pod in each state, with duplicates.
	workloads map[GuardState][]string
}

// newGuardStatement returns the statement by what was seen of the groups of the Service's pods; nil if it has no list.
func newGuardStatement(svc *corev1.Service, own []group, beyond bool) *guardStatement {
	if !api.Guards(svc) {
		return nil
	}
	entries, _, _ := api.Clients(svc)
	s := &guardStatement{service: svc, watches: slices.Contains(entries, api.ClientsWatch), beyond: beyond, seen: newGuarding(), workloads: map[GuardState][]string{}}
	asks := api.ProxyTargets(svc)
	for _, target := range api.TCPTargets(svc) { // a port in plaintext leads to the same program
		if !slices.Contains(asks, target.String()) {
			s.open = append(s.open, target.String())
		}
	}
	s.notReady = slices.ContainsFunc(own, func(g group) bool { return g.notReady > 0 })
	for _, name := range asks {
		for _, g := range own {
			set, met := g.met[need{svc.UID, name}]
			if !met || set == noSet {
				continue
			}
			seen := g.guards[set]
			for is, n := range seen.states {
				s.seen.states[is] += n
				s.workloads[is] = append(s.workloads[is], g.workload.String())
			}
			maps.Copy(s.seen.causes, seen.causes)
			s.seen.admits, s.seen.unseen = s.seen.admits.first(seen.admits), s.seen.unseen+seen.unseen
		}
	}
	return s
}

// condition returns the Service's new condition; nil if the existing one may stay, because it is not known yet whether that
// is still so. confirmed: the lack of ready pods has lasted for a while. keyless are the workloads as [Keyless] names them.
func (s *guardStatement) condition(confirmed bool, keyless string) *state.Condition {
	c := metav1.Condition{Type: api.ConditionGuarded}
	c.Status, c.Reason, c.Message = s.words(confirmed, keyless)
	if has := api.Condition(s.service, api.ConditionGuarded); c.Reason == api.GuardedPending && s.seen.states[guardOther] == 0 && has != nil && state.GuardedIsOfNow(s.service) &&
		slices.Contains([]string{api.GuardedRefusing, api.GuardedAdmits, api.GuardedNotSeen}, has.Reason) {
		return nil
	}
	return state.Say(c, state.Guarded{Of: api.GuardHash(s.service)})
}

func (s *guardStatement) words(confirmed bool, keyless string) (metav1.ConditionStatus, string, string) {
	if reason, text := s.admitsOthers(); reason != "" {
		return metav1.ConditionFalse, reason, text
	}
	if reason, text := s.notSeen(confirmed, keyless); reason != "" {
		return metav1.ConditionUnknown, reason, text
	}
	return metav1.ConditionTrue, api.GuardedRefusing, "every ready pod of this Service was seen to refuse clients that are not listed"
}

// admitsOthers returns why others than the listed clients are admitted; empty if none were seen to be.
func (s *guardStatement) admitsOthers() (reason, text string) {
	n := s.seen.states
	switch {
	case n[guardAdmits] > 0:
		return api.GuardedAdmits, fmt.Sprintf("%s, so not only the listed clients are admitted by %s: restart it, and see the log of its container %s",
			s.seen.admits, s.named(guardAdmits), api.ProxyContainer)
	case len(s.open) > 0:
		return api.GuardedNoProxy, "no proxy is in front of " + api.Listed(s.open, maxNamed) +
			", which admits all: remove the port from the Service, set its targetPort to sc-tls-PORT, or let the program verify its clients"
	case n[guardNoList] > 0:
		return api.GuardedNoList, "all clients are admitted by pods that are older than the trust domain, or have no list yet: " +
			s.named(guardNoList) + "; restart them"
	case s.watches || n[guardWatch] > 0:
		return api.GuardedWatch, "all clients are admitted, and counted, because a list of clients has the entry " + api.ClientsWatch
	}
	return "", ""
}

// notSeen returns why it is not known whether others than the listed clients are admitted; empty if it is.
func (s *guardStatement) notSeen(confirmed bool, keyless string) (reason, text string) {
	n := s.seen.states
	ready := len(n) > 0 || s.seen.unseen > 0
	switch {
	case s.service.Spec.PublishNotReadyAddresses && s.notReady:
		return api.GuardedNotSeen, "pods that are not ready get traffic (publishNotReadyAddresses), but are not dialled"
	case len(s.service.Spec.Selector) == 0:
		return api.GuardedNotSeen, "this Service has no selector, so it is not known where its ports lead"
	case n[guardOther] > 0:
		return api.GuardedPending, "the list of clients is not yet that of the Services in pods of " + s.named(guardOther)
	case n[guardNotSeen] > 0:
		return api.GuardedNotSeen, "cannot tell whether clients that are not listed are refused by " + s.named(guardNotSeen) + ": " + s.why()
	case s.beyond:
		return api.GuardedNotSeen, fmt.Sprintf("cannot tell whether clients that are not listed are refused: the Services of one of the pods have more than %d ports and names", maxTargets)
	case keyless != "":
		return api.GuardedNotSeen, "cannot tell whether clients that are not listed are refused by pods that do not mount the certificate of this Service: " + keyless
	case n[guardPending] > 0 || len(n) == 0 && ready || !ready && !confirmed:
		return api.GuardedPending, "not every pod of this Service has been dialled as a client that is not listed"
	case !ready:
		return api.GuardedNotSeen, "no ready pod of this Service has its TLS ports"
	}
	return "", ""
}

// named names the workloads with a pod in the state.
func (s *guardStatement) named(is GuardState) string {
	names := slices.Sorted(slices.Values(s.workloads[is]))
	return api.Listed(slices.Compact(names), maxNamed)
}

// why explains why it was not seen whether strangers are refused.
func (s *guardStatement) why() string {
	var texts []string
	for cause := range s.seen.causes {
		text := cause.Why("")
		if text == "" {
			text = "the connection ended without an alert about the client's certificate (" + string(cause) + ")"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// release marks condition Guarded of Services whose pods are not dialled, and removes it where no clients are listed.
func (d *Decision) release(services []*corev1.Service, why string) {
	for _, svc := range services {
		has := state.Of(svc, api.ConditionGuarded)
		if has == nil {
			continue
		}
		var want *state.Condition
		if api.Guards(svc) {
			want = state.Say(metav1.Condition{Type: api.ConditionGuarded, Status: metav1.ConditionUnknown, Reason: api.GuardedNotSeen, Message: why}, state.Guarded{Of: api.GuardHash(svc)})
		}
		if !state.Same(has, want) {
			d.Guarded = append(d.Guarded, ConditionUpdate{svc, want})
		}
	}
}
