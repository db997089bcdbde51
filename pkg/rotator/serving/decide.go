package serving

import (
	"cmp"
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Common is the input that both kinds of decisions share.
type Common struct {
	Now       time.Time
	Namespace string
	Services  []*corev1.Service // oldest first
	// Listing are the Services of the namespace that list their clients (api.Guards), of any certificate.
	Listing []*corev1.Service
	Pods    []*pods.Facts
	// Keyless are the workloads with pods that mount no key; see [Keyless].
	Keyless map[types.UID]string
	// OnlyKept are the workloads with pods that mount only a Secret from before; see [OnlyKept].
	OnlyKept map[types.UID]string
	// Unresponsive are the periods of those of the Pods that do not answer in time.
	Unresponsive map[types.UID]probe.UnresponsivePeriod
	// KeyState is that of the previous Decision about the key, with later answers of pods.
	KeyState KeyState
	Pace     Pace
	// Off: pods are not dialled (--verify-consumers=false).
	Off bool
}

// subject is what a decision is about. It has the differences between a Secret and pods with their
// own keys.
type subject interface {
	standard
	key() pods.Key
	// endpointOf returns where the pod is dialled; without Services if the pod is not relevant.
	endpointOf(pod *pods.Facts) *endpoint
	// counts reports whether the pod is counted here, and not with another Secret.
	counts(pod *pods.Facts) bool
	// complete adds the subject's fields to the target of a dial.
	complete(target *probe.Target, at *endpoint)
	// reached returns the new reached and refreshAt of the pod, and records the delay of a
	// certificate that the pod serves for the first time.
	reached(c consumer, d *Decision) (leaf string, refreshAt time.Time)
	// describe completes the report about stale pods, which include c.
	describe(w *StaleWorkload, c consumer)
	// statements returns the content of the Services' conditions. seen are the subject's pods.
	statements(seen Seen) []statement
}

// Decision is the result for the Secret, or for the pods' own keys.
type Decision struct {
	// Conditions are the updates of the Services' conditions.
	Conditions []ConditionUpdate
	// Guarded are those of condition Guarded.
	Guarded []ConditionUpdate
	// Dial are the pods to dial now, and After is when to decide again; 0: only after a change.
	Dial  []probe.Target
	After time.Duration
	// Stale are the workloads with stale pods, sorted. Notify are those that an event is to report.
	Stale, Notify []StaleWorkload
	// States counts the pods. NotAfter is the earliest expiry of the certificates that stale pods
	// serve, zero if there are none. A pod that is counted with another Secret is in neither.
	States   map[State]int
	NotAfter time.Time
	// GuardStates counts the pods whose strangers count, by the state of their ports that is first.
	GuardStates map[GuardState]int
	// Arrivals are the delays of the certificate until each pod that serves it for the first time.
	// RefreshDelays are those of pods with their own keys: from the time at which the kubelet was
	// due to replace the previous certificate until the new one was issued.
	Arrivals, RefreshDelays []time.Duration
	// Seen are the observations about the pods, for PodKeys of a SecretSituation.
	Seen Seen

	// KeyState replaces the previous one. Forget: delete it instead.
	KeyState KeyState
	Forget   bool
}

// ConditionUpdate is the new condition of a Service; nil to remove it.
type ConditionUpdate struct {
	Service *corev1.Service
	Want    *state.Condition
}

// consumers returns the relevant pods with their endpoints and answers, and the UIDs of the Services
// that are not considered for all of their pods.
func (s *Common) consumers(about subject) (out []consumer, beyond map[types.UID]bool) {
	endpoints := map[unique.Handle[pods.Template]]*endpoint{}
	beyond = map[types.UID]bool{}
	for _, pod := range s.Pods {
		if pod.DeletionTimestamp != nil || pod.Template.Value().Left == pods.ReasonFinished {
			continue
		}
		at := endpoints[pod.Template]
		if at == nil {
			at = about.endpointOf(pod)
			at.wanted = wantedLists(s.Listing, pod.Template.Value())
			endpoints[pod.Template] = at
			for _, svc := range at.beyond {
				beyond[svc.UID] = true
			}
		}
		if at.services == nil {
			continue // not relevant
		}
		c := newConsumer(pod, at, s.KeyState.pods[pod.UID], s.Now)
		c.unresponsive = s.Unresponsive[pod.UID]
		out = append(out, c)
	}
	return out, beyond
}

// view is the input, what was derived from it, and the Decision in progress.
type view struct {
	*Common
	about     subject
	consumers []consumer
	beyond    map[types.UID]bool
	d         Decision

	schedule schedule
	states   map[State]int // of all pods, including those counted with another Secret
	groups   groups
	stale    staleGroups
	// reported: one of the stale pods is counted here.
	reported map[notification]bool
}

// view returns the view of a subject. next is the new KeyState, without the states of pods.
func (s *Common) view(about subject, next KeyState) *view {
	consumers, beyond := s.consumers(about)
	v := &view{
		Common: s, about: about, consumers: consumers, beyond: beyond,
		states: map[State]int{}, groups: groups{key: about.key(), index: map[groupKey]int{}}, stale: staleGroups{}, reported: map[notification]bool{},
	}
	next.begun, next.pods = s.KeyState.begun, make(map[types.UID]*podState, len(v.consumers))
	v.d = Decision{States: map[State]int{}, GuardStates: map[GuardState]int{}, KeyState: next}
	return v
}

func (v *view) decide() {
	for _, c := range v.consumers {
		v.addConsumer(c)
	}
	v.d.Seen = Seen{v.groups.sorted(), v.beyond}
	v.setConditions()
	v.setStale()
	v.d.Dial, v.d.After = v.schedule.dial, v.schedule.after
}

// addConsumer adds one pod to the Decision and to its group.
func (v *view) addConsumer(c consumer) {
	state, counts := c.state(v.about, v.Pace), v.about.counts(c.pod)
	v.states[state]++
	if counts {
		v.d.States[state]++
		if is, guarded := c.guardState(v.Pace); guarded {
			v.d.GuardStates[is]++
		}
	}
	v.schedule.add(c, v)
	v.remember(c)
	isNew := !c.dialled && c.seen.After(v.KeyState.begun)
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

// remember stores the state of the pod.
func (v *view) remember(c consumer) {
	leaf, refreshAt := v.about.reached(c, &v.d)
	v.d.KeyState.pods[c.pod.UID] = &podState{seen: c.seen, most: c.endpoint.answers, reached: leaf, refreshAt: refreshAt, woken: c.woken, admits: c.pod.Admits, admitsSince: c.admitsSince}
}

// setConditions decides the conditions. A lack of ready pods or of ports is reported only once it
// has lasted: pods that are being replaced are not ready for a moment.
func (v *view) setConditions() {
	for _, s := range v.about.statements(v.d.Seen) {
		var lasted time.Duration
		if s.silent() {
			v.setGuarded(s, false)
			if api.Condition(s.service, api.ConditionServing) != nil {
				v.d.Conditions = append(v.d.Conditions, ConditionUpdate{s.service, nil})
			}
			continue
		}
		if s.lacks() {
			since, known := v.KeyState.lacking[s.service.UID]
			if !known {
				since = v.Now
			}
			if v.d.KeyState.lacking == nil {
				v.d.KeyState.lacking = map[types.UID]time.Time{}
			}
			v.d.KeyState.lacking[s.service.UID] = since
			if lasted = v.Now.Sub(since); lasted < v.Pace.confirmAfter() {
				v.schedule.requeue(v.Pace.confirmAfter() - lasted)
			}
		}
		confirmed := lasted >= v.Pace.confirmAfter()
		if want := s.condition(confirmed); want != nil {
			v.d.Conditions = append(v.d.Conditions, ConditionUpdate{s.service, want})
		}
		v.setGuarded(s, confirmed)
	}
}

// setGuarded decides condition Guarded of a Service. It is removed with the list.
func (v *view) setGuarded(s statement, confirmed bool) {
	var want *state.Condition
	if s.guard != nil {
		if want = s.guard.condition(confirmed, cmp.Or(v.Keyless[s.service.UID], v.OnlyKept[s.service.UID])); want == nil {
			return
		}
	}
	v.d.Guarded = append(v.d.Guarded, ConditionUpdate{s.service, want})
}

// setStale decides which workloads are stale, and which an event reports: once for each workload
// and certificate, after all pods were dialled following the propagation time, so that the event
// counts all of them.
func (v *view) setStale() {
	for key, g := range v.stale {
		slices.Sort(g.BarePods)
		v.d.Stale = append(v.d.Stale, *g)
		if v.states[statePropagating] == 0 && v.reported[key] && !slices.Contains(v.d.KeyState.notified, key) {
			v.d.KeyState.notified = append(v.d.KeyState.notified, key)
			v.d.Notify = append(v.d.Notify, *g)
		}
	}
	slices.SortFunc(v.d.Stale, StaleWorkload.Compare)
	slices.SortFunc(v.d.Notify, StaleWorkload.Compare)
}
