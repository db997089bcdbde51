package rotator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// consumersSituation is all that one look at a Secret's consumers is made from.
type consumersSituation struct {
	now       time.Time
	namespace string
	secret    string
	services  []*corev1.Service // with a part in the Secret, oldest first
	cert      certificate
	consumers []consumer
	// begun is when this process first looked, and empty since when it found no
	// ready pod, zero if it does.
	begun, empty time.Time
	told         map[staleNews]bool
}

// staleNews is what an event tells: once for each workload and leaf.
type staleNews struct {
	workload  Workload
	onRotate  api.OnRotate
	elsewhere bool // see readsElsewhere
}

// consumersDecision is what follows.
type consumersDecision struct {
	dial       []consumer // now
	after      time.Duration
	conditions []servingChange
	stale      []staleWorkload
	tell       []told
	states     map[State]int
	// notAfter is when the first of the certificates ends that are served in
	// place of the current one, zero if none is.
	notAfter time.Time
	// empty replaces what was known; news is what was told by now.
	empty time.Time
	news  map[staleNews]bool
}

// servingChange is a condition that a Service is to have.
type servingChange struct {
	service *corev1.Service
	want    *metav1.Condition
}

// told is what is to be told of a workload.
type told struct {
	staleNews
	pods   int
	pod    string
	podUID types.UID
}

// decideConsumers says whom to dial, what to say, and what is to be done about.
func decideConsumers(s consumersSituation, p pace) consumersDecision {
	d := consumersDecision{states: map[State]int{}, news: map[staleNews]bool{}, empty: s.empty}
	maps.Copy(d.news, s.told)
	var crowds []crowd
	index := map[crowdKey]int{}
	piles := map[staleNews]*told{}
	for _, c := range s.consumers {
		state := c.state(s.cert, p)
		d.states[state]++
		t := c.pod.Template.Value()
		d.schedule(c, s, p)
		if state == StatePending && len(c.answers) == 0 && c.seen.After(s.begun) {
			state = stateNew
		}
		key := crowdKey{t.Workload, t.OnRotate, c.door}
		i, ok := index[key]
		if !ok {
			i = len(crowds)
			index[key] = i
			crowds = append(crowds, crowd{t.Workload, t.OnRotate, c.door.services, map[State]int{}})
		}
		crowds[i].states[state]++
		if state == StateStale {
			d.addStale(piles, c, s.cert, p)
		}
	}
	slices.SortFunc(crowds, byName)
	if d.states[StateNotReady] < len(s.consumers) {
		d.empty = time.Time{}
	} else if d.empty.IsZero() {
		d.empty = s.now
	}
	d.say(s, p, crowds)
	d.pile(s, piles)
	return d
}

type crowdKey struct {
	workload Workload
	onRotate api.OnRotate
	door     *door
}

// schedule dials the consumer now, or notes when to look again.
func (d *consumersDecision) schedule(c consumer, s consumersSituation, p pace) {
	at, ok := c.next(s.cert, p)
	switch {
	case !ok:
	case at.After(s.now):
		d.lookAfter(at.Sub(s.now))
	default:
		d.dial = append(d.dial, c)
	}
}

func (d *consumersDecision) lookAfter(wait time.Duration) {
	if d.after == 0 || wait < d.after {
		d.after = wait
	}
}

// addStale puts a stale pod with those of its workload.
func (d *consumersDecision) addStale(piles map[staleNews]*told, c consumer, cert certificate, p pace) {
	if notAfter := c.firstEnd(cert, p); d.notAfter.IsZero() || notAfter.Before(d.notAfter) {
		d.notAfter = notAfter
	}
	t := c.pod.Template.Value()
	key := staleNews{t.Workload, t.OnRotate, c.readsElsewhere(cert)}
	pile := piles[key]
	if pile == nil {
		pile = &told{staleNews: key}
		piles[key] = pile
	}
	pile.pods++
	if pile.pod == "" || c.pod.Name < pile.pod {
		pile.pod, pile.podUID = c.pod.Name, c.pod.UID
	}
}

// say decides the conditions.
func (d *consumersDecision) say(s consumersSituation, p pace, crowds []crowd) {
	var absent time.Duration
	if !d.empty.IsZero() {
		absent = s.now.Sub(d.empty)
		if wait := p.settle() - absent; wait > 0 {
			d.lookAfter(wait)
		}
	}
	for _, svc := range s.services {
		if want := servingCondition(svc, s.secret, crowds, s.cert, p, absent); want != nil {
			d.conditions = append(d.conditions, servingChange{svc, want})
		}
	}
}

// pile decides what is to be done about stale workloads, and whom to tell of them:
// when all pods have been asked after the propagation time, so that it is told of
// all of them.
func (d *consumersDecision) pile(s consumersSituation, piles map[staleNews]*told) {
	for _, pile := range piles {
		if d.states[StatePropagating] == 0 && !s.told[pile.staleNews] {
			d.news[pile.staleNews] = true
			d.tell = append(d.tell, *pile)
		}
		if pile.elsewhere {
			continue
		}
		d.stale = append(d.stale, s.staleOf(*pile))
	}
	slices.SortFunc(d.stale, byWorkload)
	slices.SortFunc(d.tell, func(a, b told) int { return cmp.Compare(a.pod, b.pod) })
}

// staleOf returns what is to be done something about.
func (s consumersSituation) staleOf(t told) staleWorkload {
	return staleWorkload{
		Workload: t.workload, Secret: s.secret, Leaf: s.cert.leaf, Since: s.cert.since, OnRotate: t.onRotate,
		Pods: t.pods, Pod: t.pod, PodUID: t.podUID, Service: s.services[0].Name, ServiceUID: s.services[0].UID,
	}
}

func byWorkload(a, b staleWorkload) int {
	return cmp.Or(cmp.Compare(a.Workload.Kind, b.Workload.Kind), cmp.Compare(a.Workload.Name, b.Workload.Name), cmp.Compare(a.Workload.UID, b.Workload.UID),
		cmp.Compare(a.Workload.APIVersion, b.Workload.APIVersion), cmp.Compare(a.Secret, b.Secret), cmp.Compare(a.OnRotate, b.OnRotate))
}
