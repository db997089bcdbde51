package missed

import (
	"cmp"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Group is the missed pods of one workload, or all missed bare pods, that would
// get the same Secret. One event reports it.
type Group struct {
	Key
	Service string // that asks for the Secret; empty if none does
	// Conventional: the Secret is the conventional one, for which no Service asks.
	Conventional bool
	Mistake      string // why one of the pods would be refused, or empty
	Pods         int
	Pod          string // the first of them by name
	PodUID       types.UID
}

// Key identifies a Group in its namespace.
type Key struct {
	Workload pods.Workload
	Gets     pods.Key // if the pods were created now
}

// groupMissed judges the pods of one namespace and groups those that are missed,
// sorted. Pods of one template are judged once.
func groupMissed(all []*pods.Facts, place Place, choose Choose) []Group {
	verdicts := map[unique.Handle[pods.Template]]Verdict{}
	found := map[Key]*Group{}
	for _, pod := range all {
		if pod.DeletionTimestamp != nil {
			continue
		}
		v, known := verdicts[pod.Template]
		if !known {
			v = Judge(pod, place, choose)
			verdicts[pod.Template] = v
		}
		if !v.Missed() {
			continue
		}
		t := pod.Template.Value()
		key := Key{t.Workload, v.Choice.Key}
		g := found[key]
		if g == nil {
			g = &Group{Key: key}
			found[key] = g
		}
		g.add(pod, t, v.Choice)
	}
	out := make([]Group, 0, len(found))
	for _, g := range found {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(a.Workload.Compare(b.Workload), a.Gets.Compare(b.Gets))
	})
	return out
}

func (g *Group) add(pod *pods.Facts, t pods.Template, c Choice) {
	g.Pods++
	if g.Pod == "" || pod.Name < g.Pod {
		g.Pod, g.PodUID, g.Service, g.Conventional, g.Mistake = pod.Name, pod.UID, c.Service, c.Conventional, t.Mistake
	}
}
