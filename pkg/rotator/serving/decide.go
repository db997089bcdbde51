package serving

import (
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Common is what a decision is made from, whichever key it is about.
type Common struct {
	Now       time.Time
	Namespace string
	Services  []*corev1.Service // oldest first
	Pods      []*pods.Facts
	// Silences are those of the Pods that do not answer in time.
	Silences map[types.UID]probe.Silence
	// Memory is that of the last Decision about the key, with what pods have answered
	// since.
	Memory Memory
	Pace   Pace
	// Off: pods are not dialled (--verify-consumers=false).
	Off bool
}

// subject is what a decision is about: in it a Secret differs from pods with keys of their
// own.
type subject interface {
	standard
	key() pods.Key
	// endpointOf returns where the pod is dialled; without Services if it is not the
	// subject's concern.
	endpointOf(pod *pods.Facts) *endpoint
	// counts reports whether the pod is counted here, and not with another Secret.
	counts(pod *pods.Facts) bool
	// ask completes a visit of a pod at the endpoint.
	ask(visit *probe.Visit, at *endpoint)
	// reached returns the pod's reached and refreshAt now, and notes how long a certificate
	// took that the pod is seen to serve for the first time.
	reached(c consumer, d *Decision) (leaf string, refreshAt time.Time)
	// describe completes what is reported of stale pods, of which c is one.
	describe(w *StaleWorkload, c consumer)
	// statements returns what the conditions of Services are to say. seen are the subject's
	// pods.
	statements(seen Seen) []statement
}

// Decision is what follows for the Secret, or for the keys of pods.
type Decision struct {
	// Conditions are those that Services are to have.
	Conditions []Change
	// Dial are the pods that are to be dialled now, and After is when to look again,
	// 0 if nothing is waited for.
	Dial  []probe.Visit
	After time.Duration
	// Stale are the workloads with stale pods, sorted, and Notify those of them that
	// an event is to report.
	Stale, Notify []StaleWorkload
	// States counts the pods, and NotAfter is when the first of the certificates
	// expires that stale pods serve, zero if none is stale. A pod that is counted with
	// another Secret is in neither.
	States   map[State]int
	NotAfter time.Time
	// Arrivals are how long the certificate took to each of the pods that were seen
	// to serve it for the first time. RefreshDelays are those of pods with keys of their
	// own: how long after their kubelets were asked to replace the last certificate the
	// one was issued that they were now seen to serve for the first time.
	Arrivals, RefreshDelays []time.Duration
	// Seen is what was seen of the pods, for PodKeys of a SecretSituation.
	Seen Seen

	// Memory replaces what was remembered of the key. Forget: nothing is to be.
	Memory Memory
	Forget bool
}

// Change is a condition Serving that a Service is to have; nil for none.
type Change struct {
	Service *corev1.Service
	Want    *state.Condition
}

// consumers puts together what is known of the pods.
func (s *Common) consumers(about subject) []consumer {
	endpoints := map[unique.Handle[pods.Template]]*endpoint{}
	var out []consumer
	for _, pod := range s.Pods {
		if pod.DeletionTimestamp != nil || pod.Template.Value().Left == pods.ReasonFinished {
			continue
		}
		at := endpoints[pod.Template]
		if at == nil {
			at = about.endpointOf(pod)
			endpoints[pod.Template] = at
		}
		if at.services == nil {
			continue // nobody's concern
		}
		c := recall(pod, at, s.Memory.pods[pod.UID], s.Now)
		c.silence = s.Silences[pod.UID]
		out = append(out, c)
	}
	return out
}

// view is what is known, what was derived from it, and the Decision that is being made.
type view struct {
	*Common
	about     subject
	consumers []consumer
	d         Decision

	agenda agenda
	states map[State]int // of all pods, also of those that are counted with another Secret
	groups groups
	stale  staleGroups
	// reported: a pod of the stale ones is not counted elsewhere.
	reported map[notification]bool
}

// view returns the view of a subject. memory is the next one, without what is remembered of
// pods.
func (s *Common) view(about subject, memory Memory) *view {
	v := &view{
		Common: s, about: about, consumers: s.consumers(about),
		states: map[State]int{}, groups: groups{key: about.key(), index: map[groupKey]int{}}, stale: staleGroups{}, reported: map[notification]bool{},
	}
	memory.begun, memory.pods = s.Memory.begun, make(map[types.UID]*remembered, len(v.consumers))
	v.d = Decision{States: map[State]int{}, Memory: memory}
	return v
}

func (v *view) decide() {
	for _, c := range v.consumers {
		v.addConsumer(c)
	}
	v.d.Seen = Seen{v.groups.sorted()}
	v.setConditions()
	v.setStale()
	v.d.Dial, v.d.After = v.agenda.dial, v.agenda.after
}

// addConsumer decides what follows from one pod, and adds it to those of its
// workload.
func (v *view) addConsumer(c consumer) {
	state, counts := c.state(v.about, v.Pace), v.about.counts(c.pod)
	v.states[state]++
	if counts {
		v.d.States[state]++
	}
	v.agenda.add(c, v)
	v.remember(c)
	isNew := len(c.answers) == 0 && c.seen.After(v.Memory.begun)
	if !c.endpoint.stray {
		v.groups.add(c, isNew, v.about, v.Pace)
	}
	if state == stateStale {
		if notAfter := c.firstExpiry(v.about, v.Pace); counts && (v.d.NotAfter.IsZero() || notAfter.Before(v.d.NotAfter)) {
			v.d.NotAfter = notAfter
		}
		key := v.stale.add(c, v.about, v.Pace)
		v.reported[key] = v.reported[key] || counts
	}
}

// remember notes what is known of the pod.
func (v *view) remember(c consumer) {
	leaf, refreshAt := v.about.reached(c, &v.d)
	v.d.Memory.pods[c.pod.UID] = &remembered{seen: c.seen, reached: leaf, refreshAt: refreshAt, woken: c.woken}
}

// setConditions decides the conditions. That no ready pod of a Service has one of its ports is
// said when it has lasted: pods that are replaced are not ready for a moment.
func (v *view) setConditions() {
	for _, s := range v.about.statements(v.d.Seen) {
		var lasted time.Duration
		if s.lacks() {
			since, known := v.Memory.lacking[s.service.UID]
			if !known {
				since = v.Now
			}
			if v.d.Memory.lacking == nil {
				v.d.Memory.lacking = map[types.UID]time.Time{}
			}
			v.d.Memory.lacking[s.service.UID] = since
			if lasted = v.Now.Sub(since); lasted < v.Pace.settle() {
				v.agenda.look(v.Pace.settle() - lasted)
			}
		}
		if want := s.condition(lasted >= v.Pace.settle()); want != nil {
			v.d.Conditions = append(v.d.Conditions, Change{s.service, want})
		}
	}
}

// setStale decides which workloads are stale, and which of them an event reports:
// once for each workload and certificate, when all pods have been dialled after
// the propagation time, so that the event counts all of them.
func (v *view) setStale() {
	for key, g := range v.stale {
		slices.Sort(g.BarePods)
		v.d.Stale = append(v.d.Stale, *g)
		if v.states[statePropagating] == 0 && v.reported[key] && !slices.Contains(v.d.Memory.notified, key) {
			v.d.Memory.notified = append(v.d.Memory.notified, key)
			v.d.Notify = append(v.d.Notify, *g)
		}
	}
	slices.SortFunc(v.d.Stale, StaleWorkload.Compare)
	slices.SortFunc(v.d.Notify, StaleWorkload.Compare)
}
