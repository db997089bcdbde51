package uninjected

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Group has the missed pods of one workload, or all missed bare pods, that would get the same
// Secret; or those that connect to Services otherwise than new ones would, in the same way; or the pods
// of one workload with the same notes of the webhook. One event reports it.
type Group struct {
	Key
	Service string // that asks for the Secret; empty if none does
	// Conventional: the Secret is the conventional one, for which no Service asks.
	Conventional bool
	Mistake      string // why one of the pods would be rejected, or empty
	// Kind is that of the first difference in Drift. LeftOut: new pods would not connect to one of the
	// Services, so that a restart does not help.
	Kind    choose.DifferenceKind
	LeftOut bool
	Pods    int    // their number
	Pod     string // the first of them by name
	PodUID  types.UID
}

// Key identifies a Group in its namespace.
type Key struct {
	Workload pods.Workload
	Gets     pods.Key // that the pods would get now
	// Noted has the webhook's notes on pods that were not missed; empty for missed pods.
	Noted string
	// Drift is how the pods connect to Services otherwise than new ones would.
	Drift string
}

// maxDrift bounds Key.Drift, in characters, so that it fits into an event.
const maxDrift = 600

// verdictsOf returns the verdict of each template. Those that are alike are evaluated once: each pod of a StatefulSet has a
// template of its own.
func verdictsOf(all []*pods.Facts, place Place) map[unique.Handle[pods.Template]]Verdict {
	verdicts, of, alike := map[unique.Handle[pods.Template]]Verdict{}, map[likeness]Verdict{}, likenessIn(place)
	for _, pod := range all {
		if _, known := verdicts[pod.Template]; known || pod.DeletionTimestamp != nil {
			continue
		}
		like := alike(pod)
		v, known := of[like]
		if !known {
			v = Evaluate(pod, place)
			of[like] = v
		}
		verdicts[pod.Template] = v
	}
	return verdicts
}

// likeness is what decides about a pod among those of its namespace.
type likeness struct {
	template pods.Template // without what does not decide, and without labels that no Service selects by
	name     string        // only if a Service may have it
}

// likenessIn returns the function that returns the likeness of a pod of the place.
func likenessIn(place Place) func(*pods.Facts) likeness {
	keys, names := map[string]bool{}, map[string]bool{}
	for _, svc := range place.Services {
		names[svc.Name] = true
		for key := range svc.Spec.Selector {
			keys[key] = true
		}
	}
	return func(pod *pods.Facts) likeness {
		l := likeness{template: pod.Template.Value()}
		t := &l.template
		t.Workload, t.Noted, t.Injection, t.Guarded = pods.Workload{}, "", pods.Injection{}, ""
		var labels []string
		for label := range strings.SplitSeq(t.Labels, ",") {
			if key, _, _ := strings.Cut(label, "="); keys[key] {
				labels = append(labels, label)
			}
		}
		t.Labels = strings.Join(labels, ",")
		if names[pod.Name] || strings.Contains(pod.Name, ".") {
			l.name = pod.Name
		}
		return l
	}
}

// group returns the groups of missed pods and of pods with notes of the webhook, sorted.
func group(all []*pods.Facts, place Place) []Group {
	verdicts, drifts := verdictsOf(all, place), map[unique.Handle[pods.Template]]string{}
	for template, v := range verdicts {
		if len(v.Drift) > 0 {
			drifts[template] = textOf(v.Drift)
		}
	}
	found := map[Key]*Group{}
	add := func(key Key, pod *pods.Facts, t pods.Template, c Choice) *Group {
		g := found[key]
		if g == nil {
			g = &Group{Key: key}
			found[key] = g
		}
		g.add(pod, t, c)
		return g
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
		if len(v.Drift) > 0 {
			g := add(Key{Workload: t.Workload, Drift: drifts[pod.Template]}, pod, t, Choice{})
			g.Kind, g.LeftOut = v.Drift[0].Kind, slices.ContainsFunc(v.Drift, func(d choose.Difference) bool { return d.Kind == choose.LeftOut })
		}
	}
	out := make([]Group, 0, len(found))
	for _, g := range found {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(a.Workload.Compare(b.Workload), a.Gets.Compare(b.Gets), cmp.Compare(a.Noted, b.Noted), cmp.Compare(a.Drift, b.Drift))
	})
	return out
}

func textOf(drift []choose.Difference) string {
	texts := make([]string, len(drift))
	for i, d := range drift {
		texts[i] = d.String()
	}
	return api.Shorten(strings.Join(texts, "; "), maxDrift)
}

func (g *Group) add(pod *pods.Facts, t pods.Template, c Choice) {
	g.Pods++
	if g.Pod == "" || pod.Name < g.Pod {
		g.Pod, g.PodUID, g.Service, g.Conventional, g.Mistake = pod.Name, pod.UID, c.Service, c.Conventional, t.Mistake
	}
}
