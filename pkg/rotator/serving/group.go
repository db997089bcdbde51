package serving

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// group has the pods of one workload that belong to the same Services, and meet their needs at the
// same ports.
type group struct {
	workload pods.Workload
	onRotate api.OnRotate
	services []*corev1.Service
	audience string       // as of the endpoint
	met      map[need]int // as of the endpoint
	key      pods.Key     // of the decision
	// ready and notReady count the pods.
	ready, notReady int
	sets            []sighting // for each set of ports
	guards          []guarding // for each set of ports
	// distrusted: clients do not accept the certificate of one of the stale pods. unlinked: one of them serves the
	// right leaf with an earlier chain.
	distrusted, unlinked bool
}

// sighting is the observation of pods at some of their ports.
type sighting struct {
	states map[State]int
	causes map[cause]bool // of stateNotVerified and statePlaintext
}

func newSighting() sighting { return sighting{map[State]int{}, map[cause]bool{}} }

func (s sighting) equal(other sighting) bool {
	return maps.Equal(s.states, other.states) && maps.Equal(s.causes, other.causes)
}

func (g group) concerns(svc *corev1.Service) bool {
	return slices.ContainsFunc(g.services, func(its *corev1.Service) bool { return its.UID == svc.UID })
}

// of returns the observations for a need. Ready pods that cannot meet it are in stateNoPort.
func (g group) of(n need) sighting {
	if set, met := g.met[n]; met && set != noSet {
		return g.sets[set]
	}
	out := newSighting()
	out.states[stateNotReady], out.states[stateNoPort] = g.notReady, g.ready
	return out
}

// declares reports whether a ready pod declares a port that the Service only needs to be declared.
func (g group) declares(n need) bool {
	_, met := g.met[n]
	return met && g.ready > 0
}

func (g group) equal(other group) bool {
	return g.workload == other.workload && g.onRotate == other.onRotate && g.key == other.key && g.distrusted == other.distrusted && g.unlinked == other.unlinked &&
		g.ready == other.ready && g.notReady == other.notReady && g.audience == other.audience && slices.EqualFunc(g.sets, other.sets, sighting.equal) && slices.EqualFunc(g.guards, other.guards, guarding.equal)
}

// Seen are the observations about the pods of one Decision.
type Seen struct {
	groups []group
	beyond map[types.UID]bool // Services that are not considered for all of their pods (maxTargets)
}

// Equal reports whether the observations are the same.
func (s Seen) Equal(other Seen) bool {
	return slices.EqualFunc(s.groups, other.groups, group.equal) && maps.Equal(s.beyond, other.beyond)
}

// and returns the observations of both.
func (s Seen) and(other Seen) Seen {
	all := Seen{slices.Concat(s.groups, other.groups), map[types.UID]bool{}}
	maps.Copy(all.beyond, s.beyond)
	maps.Copy(all.beyond, other.beyond)
	return all
}

// Services returns the Services of the pods, possibly with duplicates.
func (s Seen) Services() []*corev1.Service {
	var out []*corev1.Service
	for _, g := range s.groups {
		out = append(out, g.services...)
	}
	return out
}

// groups collects consumers in groups.
type groups struct {
	key   pods.Key // of all
	all   []group
	index map[groupKey]int
}

type groupKey struct {
	workload pods.Workload
	onRotate api.OnRotate
	audience string
}

// add adds a pod. isNew: it became ready after the first decision, and was not dialled yet.
func (g *groups) add(c consumer, isNew bool, by standard, p Pace) {
	t := c.pod.Template.Value()
	key := groupKey{t.Workload, t.OnRotate, c.endpoint.audience}
	i, ok := g.index[key]
	if !ok {
		i = len(g.all)
		g.index[key] = i
		its := group{workload: t.Workload, onRotate: t.OnRotate, services: c.endpoint.services, audience: key.audience, met: c.endpoint.met, key: g.key}
		for range c.endpoint.sets {
			its.sets, its.guards = append(its.sets, newSighting()), append(its.guards, newGuarding())
		}
		g.all = append(g.all, its)
	}
	its := &g.all[i]
	if c.pod.Ready {
		its.ready++
	} else {
		its.notReady++
	}
	for i := range c.endpoint.sets {
		state := c.stateAt(i, by, p)
		if state == statePending && isNew {
			state = stateNew
		}
		its.sets[i].add(c, i, state)
		if c.pod.Ready && len(c.endpoint.guarded) > 0 {
			its.guards[i].add(c, i, isNew, p)
		}
		if state == stateStale {
			_, distrusted := by.overdue(c, p)
			its.distrusted = its.distrusted || distrusted
			its.unlinked = its.unlinked || slices.ContainsFunc(c.answers, func(a probe.Answer) bool { return slices.Contains(c.endpoint.sets[i], a.Port) && !by.linked(a) })
		}
	}
}

// add adds the state of a pod at one of its endpoint's sets of ports, and the causes.
func (s sighting) add(c consumer, i int, state State) {
	set := c.endpoint.sets[i]
	s.states[state]++
	if c.endpoint.cut[i] && state == stateNotVerified {
		s.causes[cause{state, probe.CauseManyPorts, ""}] = true
	}
	for _, a := range c.answers {
		if slices.Contains(set, a.Port) && a.Kind == kindOf[state] && a.Cause != "" {
			s.causes[cause{state, a.Cause, a.Protocol}] = true
		}
	}
}

// cause is why pods are in a state, by their answers.
type cause struct {
	state    State
	cause    probe.Cause
	protocol starttls.Protocol
}

// kindOf is the kind of the answers that explain a state.
var kindOf = map[State]probe.Kind{stateNotVerified: probe.NotVerified, statePlaintext: probe.Plaintext}

// sorted returns the groups by workload, so that the text is deterministic.
func (g *groups) sorted() []group {
	slices.SortFunc(g.all, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.workload.Kind, b.workload.Kind), cmp.Compare(a.workload.Name, b.workload.Name), cmp.Compare(a.onRotate, b.onRotate), cmp.Compare(a.audience, b.audience))
	})
	return g.all
}
