package uninjected

import (
	"cmp"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Group is the missed pods of one workload, or all missed bare pods, that would
// get the same Secret; or those of one workload on which the webhook noted the same. One
// event reports it.
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
	// Noted is what the webhook noted on the pods, which were not missed; empty for those
	// that were.
	Noted string
}

// group judges the pods of one namespace and groups those that are missed, and those
// on which the webhook noted something, sorted. Pods of one template are judged once.
func group(all []*pods.Facts, place Place, choose Choose) []Group {
	verdicts := map[unique.Handle[pods.Template]]Verdict{}
	found := map[Key]*Group{}
	add := func(key Key, pod *pods.Facts, t pods.Template, c Choice) {
		g := found[key]
		if g == nil {
			g = &Group{Key: key}
			found[key] = g
		}
		g.add(pod, t, c)
	}
	for _, pod := range all {
		if pod.DeletionTimestamp != nil {
			continue
		}
		v, known := verdicts[pod.Template]
		if !known {
			v = Judge(pod, place, choose)
			verdicts[pod.Template] = v
		}
		t := pod.Template.Value()
		if t.Noted != "" && t.Left != pods.ReasonFinished {
			add(Key{Workload: t.Workload, Noted: t.Noted}, pod, t, Choice{})
		}
		if v.Missed() {
			add(Key{Workload: t.Workload, Gets: v.Choice.Key}, pod, t, v.Choice)
		}
	}
	out := make([]Group, 0, len(found))
	for _, g := range found {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(a.Workload.Compare(b.Workload), a.Gets.Compare(b.Gets), cmp.Compare(a.Noted, b.Noted))
	})
	return out
}

func (g *Group) add(pod *pods.Facts, t pods.Template, c Choice) {
	g.Pods++
	if g.Pod == "" || pod.Name < g.Pod {
		g.Pod, g.PodUID, g.Service, g.Conventional, g.Mistake = pod.Name, pod.UID, c.Service, c.Conventional, t.Mistake
	}
}
