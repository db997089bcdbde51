package serving

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// group is pods of one workload that are the concern of the same Services.
type group struct {
	workload pods.Workload
	onRotate api.OnRotate
	services []*corev1.Service
	audience string // as of the endpoint
	states   map[State]int
	causes   map[cause]bool // of those in stateNotVerified and statePlaintext
	key      pods.Key       // that the decision is about
	// distrusted: clients do not accept the certificate of one in stateStale.
	distrusted bool
}

func (g group) concerns(svc *corev1.Service) bool {
	return slices.ContainsFunc(g.services, func(its *corev1.Service) bool { return its.UID == svc.UID })
}

func (g group) equal(other group) bool {
	return g.workload == other.workload && g.onRotate == other.onRotate && g.key == other.key && g.distrusted == other.distrusted &&
		maps.Equal(g.states, other.states) && maps.Equal(g.causes, other.causes) && g.audience == other.audience
}

// Seen is what was seen of the pods that one Decision is about.
type Seen struct{ groups []group }

// Equal reports whether the same was seen.
func (s Seen) Equal(other Seen) bool { return slices.EqualFunc(s.groups, other.groups, group.equal) }

// Services returns those whose pods were seen; one may be there more than once.
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

func (g *groups) add(c consumer, state State, by standard, p Pace) {
	t := c.pod.Template.Value()
	key := groupKey{t.Workload, t.OnRotate, c.endpoint.audience}
	i, ok := g.index[key]
	if !ok {
		i = len(g.all)
		g.index[key] = i
		g.all = append(g.all, group{
			workload: t.Workload, onRotate: t.OnRotate, services: c.endpoint.services, audience: key.audience, key: g.key,
			states: map[State]int{}, causes: map[cause]bool{},
		})
	}
	g.all[i].states[state]++
	if state == stateStale {
		_, distrusted := by.overdue(c, p)
		g.all[i].distrusted = g.all[i].distrusted || distrusted
	}
	for _, a := range c.answers {
		if a.Kind == kindOf[state] && a.Cause != "" {
			g.all[i].causes[cause{state, a.Cause, a.Protocol}] = true
		}
	}
}

// cause is why pods are in a state: what an answer says beside its kind.
type cause struct {
	state    State
	cause    probe.Cause
	protocol starttls.Protocol
}

// kindOf is the kind of the answers that say why a pod is in a state.
var kindOf = map[State]probe.Kind{stateNotVerified: probe.NotVerified, statePlaintext: probe.Plaintext}

// sorted returns the groups by workload, so that equal worlds give equal text.
func (g *groups) sorted() []group {
	slices.SortFunc(g.all, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.workload.Kind, b.workload.Kind), cmp.Compare(a.workload.Name, b.workload.Name), cmp.Compare(a.onRotate, b.onRotate), cmp.Compare(a.audience, b.audience))
	})
	return g.all
}
