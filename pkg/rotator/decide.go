package rotator

import (
	"cmp"
	"slices"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// miss is what is told at once: the missed pods of one workload, or all missed
// bare pods, that would get the same Secret.
type miss struct {
	missKey
	service string // that asks for the Secret; empty if none does
	// conventional: neither does any of the pods.
	conventional bool
	mistake      string // what one of the pods would be refused for, or empty
	pods         int
	pod          string // the first of them by name
	podUID       types.UID
}

type missKey struct {
	workload Workload
	secret   string
}

// groupMissed judges the pods of one namespace and groups those that are missed,
// sorted. Pods of one template are judged once.
func groupMissed(pods []*PodFacts, place Place, choose Choose) []miss {
	verdicts := map[unique.Handle[Template]]Verdict{}
	found := map[missKey]*miss{}
	for _, pod := range pods {
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
		key := missKey{t.Workload, v.Choice.Secret}
		m := found[key]
		if m == nil {
			m = &miss{missKey: key}
			found[key] = m
		}
		m.add(pod, t, v.Choice)
	}
	out := make([]miss, 0, len(found))
	for _, m := range found {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b miss) int {
		return cmp.Or(cmp.Compare(a.workload.Kind, b.workload.Kind), cmp.Compare(a.workload.Name, b.workload.Name),
			cmp.Compare(a.workload.UID, b.workload.UID), cmp.Compare(a.workload.APIVersion, b.workload.APIVersion), cmp.Compare(a.secret, b.secret))
	})
	return out
}

func (m *miss) add(pod *PodFacts, t Template, c Choice) {
	m.pods++
	if m.pod == "" || pod.Name < m.pod {
		m.pod, m.podUID, m.service, m.conventional, m.mistake = pod.Name, pod.UID, c.Service, c.Conventional, t.Mistake
	}
}

// record is what is remembered of a miss.
type record struct {
	since time.Time
	told  bool
}

// decision is what follows from the misses of a namespace.
type decision struct {
	tell []miss // one event each
	rest []miss // one event for all of them
	// records replace those that were remembered: what is gone is forgotten, and
	// told again if it comes back.
	records map[missKey]record
	// after is when to look again, 0 if nothing is waited for.
	after time.Duration
}

// decide says whom to tell. A miss is told once, when it has lasted for patience:
// where Service and workload are changed together, the rollout that follows
// settles it. No more than most events are spent on single misses.
func decide(now time.Time, patience time.Duration, most int, found []miss, before map[missKey]record) decision {
	d := decision{records: make(map[missKey]record, len(found))}
	for _, m := range found {
		r, known := before[m.missKey]
		if !known {
			r.since = now
		}
		if wait := r.since.Add(patience).Sub(now); wait > 0 && !r.told {
			if d.after == 0 || wait < d.after {
				d.after = wait
			}
		} else if !r.told {
			r.told = true
			d.tell = append(d.tell, m)
		}
		d.records[m.missKey] = r
	}
	if len(d.tell) > most {
		d.tell, d.rest = d.tell[:most], d.tell[most:]
	}
	return d
}
