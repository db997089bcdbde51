package serving

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// group is pods of one workload that are the concern of the same Services.
type group struct {
	workload pods.Workload
	onRotate api.OnRotate
	services []*corev1.Service
	states   map[State]int
	causes   map[probe.Cause]bool // of those in stateNotVerified
}

// groups collects consumers in groups.
type groups struct {
	all   []group
	index map[groupKey]int
}

type groupKey struct {
	workload pods.Workload
	onRotate api.OnRotate
	endpoint *endpoint
}

func (g *groups) add(c consumer, state State) {
	t := c.pod.Template.Value()
	key := groupKey{t.Workload, t.OnRotate, c.endpoint}
	i, ok := g.index[key]
	if !ok {
		i = len(g.all)
		g.index[key] = i
		g.all = append(g.all, group{t.Workload, t.OnRotate, c.endpoint.services, map[State]int{}, map[probe.Cause]bool{}})
	}
	g.all[i].states[state]++
	if state != stateNotVerified {
		return
	}
	for _, a := range c.answers {
		if a.Kind == probe.NotVerified {
			g.all[i].causes[a.Cause] = true
		}
	}
}

// sorted returns the groups by workload, so that equal worlds give equal text.
func (g *groups) sorted() []group {
	slices.SortFunc(g.all, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.workload.Kind, b.workload.Kind), cmp.Compare(a.workload.Name, b.workload.Name), cmp.Compare(a.onRotate, b.onRotate))
	})
	return g.all
}
