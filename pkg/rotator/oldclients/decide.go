// Package oldclients finds the pods that may hold a CA bundle without the root of a newer generation
// of the CA: they have the bundle in a volume, and were started before it had that root everywhere.
// Whether a program reads its bundle again nobody can see from outside, so all are found that do not
// say so themselves, by annotation servingcert.dev/on-rotate: reload.
//
// A [Decision] says how many there are by generation, for people and for the signer, and which of them
// ask for a restart, for package restart. It is pure; its controller is in package
// oldclients/controller.
package oldclients

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// Situation is what a decision is made from.
type Situation struct {
	Now time.Time
	// CA is what the signer publishes.
	CA   api.CAStatus
	Pods iter.Seq[*pods.Facts]
}

// Decision is what follows.
type Decision struct {
	// Clients are counted for each generation whose root is everywhere, the oldest first.
	Clients api.OldClients
	// Stale are, by namespace, the workloads that ask for a restart.
	Stale map[string][]serving.StaleWorkload
	// After is when to look again though nothing has changed, 0 for never.
	After time.Duration
}

// Decide counts the pods that may not hold the root of a generation.
func Decide(s Situation) Decision {
	d := Decision{Stale: map[string][]serving.StaleWorkload{}}
	var counts []*count
	for _, g := range followed(s.CA.Generations) {
		since := everywhere(g)
		if wait := since.Sub(s.Now); wait > 0 {
			if d.After == 0 || wait < d.After {
				d.After = wait
			}
			continue
		}
		counts = append(counts, newCount(g, since))
	}
	if len(counts) == 0 {
		return d
	}
	newest := counts[len(counts)-1]
	replaced := s.CA.Phase != api.PhaseWait && s.CA.Phase != api.PhaseReissue
	for f := range s.Pods {
		t := f.Template.Value()
		if !t.Roots || t.Reloads || f.DeletionTimestamp != nil {
			continue
		}
		for _, c := range counts {
			if f.StartedBefore(c.Since) {
				c.add(f, t)
			}
		}
		// A server with a certificate is restarted for that, if it has to be, and then has the bundle.
		server := len(f.Keys()) > 0 && !replaced
		if t.OnRotate == api.OnRotateRestart && f.StartedBefore(newest.Since) && !server {
			newest.ask(f, t)
		}
	}
	for _, c := range counts {
		d.Clients = append(d.Clients, c.result())
	}
	newest.stale(d.Stale)
	return d
}

// followed returns the generations whose root is in the bundle and was not in that of some other
// generation, the oldest first: of too many the newest.
func followed(all []api.CAGenerationRecord) []api.CAGenerationRecord {
	var out []api.CAGenerationRecord
	for i, g := range all {
		if i > 0 && !g.Retired && g.Root != all[i-1].Root && !everywhere(g).IsZero() {
			out = append(out, g)
		}
	}
	return out[max(0, len(out)-api.MaxOldClientGenerations):]
}

// everywhere returns from when on a container that starts reads the root: every target held it, or
// it signed because there was no time to wait, and since then kubelets had the time to update all
// volumes, which a soak that is shorter says they do in less. It is zero if that is not so yet.
func everywhere(g api.CAGenerationRecord) time.Time {
	switch {
	case !g.TrustedAt.IsZero():
		if updated := g.TrustedAt.Add(api.KubeletUpdatesByName); g.SignsSince.IsZero() || updated.Before(g.SignsSince) {
			return updated
		}
		return g.SignsSince
	case !g.SignsSince.IsZero():
		return g.SignsSince.Add(api.KubeletUpdatesByName)
	}
	return time.Time{}
}

// place is a workload and where it is. Bare pods are each their own.
type place struct {
	namespace string
	workload  pods.Workload
	pod       string
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.namespace, other.namespace), p.workload.Compare(other.workload), cmp.Compare(p.pod, other.pod))
}

func (p place) String() string {
	if p.workload.Bare() {
		return p.namespace + "/" + api.PodKind + " " + p.pod
	}
	return p.namespace + "/" + p.workload.String()
}

func placeOf(f *pods.Facts, t pods.Template) place {
	p := place{namespace: f.Namespace, workload: t.Workload}
	if t.Workload.Bare() {
		p.pod = f.Name
	}
	return p
}

// count is what was counted of one generation.
type count struct {
	api.OldClientsOf
	places map[place]bool
	asking map[place]*serving.StaleWorkload
}

func newCount(g api.CAGenerationRecord, since time.Time) *count {
	return &count{api.OldClientsOf{Generation: g.Number, Root: g.Root, Since: since}, map[place]bool{}, map[place]*serving.StaleWorkload{}}
}

func (c *count) add(f *pods.Facts, t pods.Template) {
	c.Pods++
	c.places[placeOf(f, t)] = true
}

func (c *count) ask(f *pods.Facts, t pods.Template) {
	p := placeOf(f, t)
	w := c.asking[p]
	if w == nil {
		w = &serving.StaleWorkload{Workload: t.Workload, Leaf: c.Root, Since: c.Since, OnRotate: t.OnRotate}
		c.asking[p] = w
	}
	w.Pods++
	if w.Pod == "" || f.Name < w.Pod {
		w.Pod, w.PodUID = f.Name, f.UID
	}
	if t.Workload.Bare() {
		w.BarePods = []string{f.Name}
	}
}

func (c *count) result() api.OldClientsOf {
	places := make([]place, 0, len(c.places))
	for p := range c.places {
		places = append(places, p)
	}
	slices.SortFunc(places, place.compare)
	c.Workloads = len(places)
	for _, p := range places[:min(len(places), api.MaxOldClientsNamed)] {
		c.First = append(c.First, p.String())
	}
	return c.OldClientsOf
}

// stale adds the workloads that ask for a restart, by namespace.
func (c *count) stale(to map[string][]serving.StaleWorkload) {
	for p, w := range c.asking {
		to[p.namespace] = append(to[p.namespace], *w)
	}
	for _, list := range to {
		slices.SortFunc(list, serving.StaleWorkload.Compare)
	}
}
