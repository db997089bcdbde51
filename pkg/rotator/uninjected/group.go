package uninjected

import (
	"cmp"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Group has the missed pods of one workload, or all missed bare pods, that would get the same
// Secret; or the pods of one workload with the same notes of the webhook. One event reports it.
type Group struct {
	Key
	Service string // that asks for the Secret; empty if none does
	// Conventional: the Secret is the conventional one, for which no Service asks.
	Conventional bool
	Mistake      string // why one of the pods would be rejected, or empty
	Pods         int    // their number
	Pod          string // the first of them by name
	PodUID       types.UID
}

// Key identifies a Group in its namespace.
type Key struct {
	Workload pods.Workload
	Gets     pods.Key // that the pods would get now
	// Noted has the webhook's notes on pods that were not missed; empty for missed pods.
	Noted string
}

// verdictsOf returns the verdict of each template, which is evaluated once.
func verdictsOf(all []*pods.Facts, place Place) map[unique.Handle[pods.Template]]Verdict {
	verdicts := map[unique.Handle[pods.Template]]Verdict{}
	for _, pod := range all {
		if _, known := verdicts[pod.Template]; !known && pod.DeletionTimestamp == nil {
			verdicts[pod.Template] = Evaluate(pod, place)
		}
	}
	return verdicts
}

// group returns the groups of missed pods and of pods with notes of the webhook, sorted.
func group(all []*pods.Facts, place Place) []Group {
	verdicts := verdictsOf(all, place)
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
		v, t := verdicts[pod.Template], pod.Template.Value()
		if t.Noted != "" && !place.Excluded && t.Left != pods.ReasonFinished {
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
