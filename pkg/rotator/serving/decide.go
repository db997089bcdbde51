package serving

import (
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Situation is what a decision about the consumers of one Secret is made from.
type Situation struct {
	Now       time.Time
	Namespace string
	// Secret is empty for the Services that have a part in no Secret and still have
	// a condition Serving. It is pods.PodKey for the pods that have keys of their own.
	Secret string
	// Services have a part in the Secret, oldest first. For pods.PodKey they are all that
	// ask for a certificate.
	Services []*corev1.Service
	// Pods mount the Secret's key. For pods.PodKey they are those with keys of their own,
	// and those that mount a Secret which a Service keeps from before it asked for such
	// keys.
	Pods []*pods.Facts
	// Trust is what keys of pods are judged by, and only for pods.PodKey.
	Trust probe.Trust
	// PodKeys are the pods of the Services that have keys of their own, and only for a
	// Secret.
	PodKeys Seen
	// Shared are those Secrets, of the ones that Services keep from before, in which
	// another Service has a part, and only for pods.PodKey. Pods that mount one, and have
	// no key of their own, are counted with it.
	Shared map[string]bool
	// Silences are those of the Pods that do not answer in time.
	Silences map[types.UID]probe.Silence
	// Memory is that of the last Decision about the Secret, with what pods have
	// answered since.
	Memory Memory
	Pace   Pace
	// Off: pods are not dialled (--verify-consumers=false).
	Off bool
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
	// Seen is what was seen of the pods, for PodKeys of another Situation.
	Seen Seen
	// Judged: no pod can be stale that is not among Stale only because it has not
	// been dialled yet. A process that has just begun does not know that.
	Judged bool

	// Memory replaces what was remembered of the Secret. Forget: nothing is to be.
	Memory Memory
	Forget bool
}

// Change is a condition Serving that a Service is to have; nil for none.
type Change struct {
	Service *corev1.Service
	Want    *metav1.Condition
}

// Decide says which pods to dial, what the Services' conditions are to be, and
// what is stale.
func Decide(s Situation) Decision {
	if s.isPodKeys() {
		return s.decidePodKeys()
	}
	if s.Secret == "" {
		return s.release(certificate{})
	}
	cert := s.Memory.certificate.follow(s.Services, s.Now)
	if cert.leaf != s.Memory.certificate.leaf {
		cert = cert.because(s.Memory, s.Services)
	}
	if cert.leaf == "" || s.Off {
		return s.release(cert)
	}
	v := &view{Situation: s, cert: cert, consumers: s.consumers()}
	return v.decide()
}

// release takes the conditions back where there is no certificate to be served,
// and marks them where nobody dials.
func (s Situation) release(cert certificate) Decision {
	d := Decision{Memory: Memory{begun: s.Memory.begun, certificate: cert}, Forget: len(s.Services) == 0, Judged: true}
	for _, svc := range s.Services {
		switch {
		case api.Condition(svc, api.ConditionServing) == nil:
		case cert.leaf == "":
			d.Conditions = append(d.Conditions, Change{svc, nil})
		default:
			if want := notVerified(svc); want != nil {
				d.Conditions = append(d.Conditions, Change{svc, want})
			}
		}
	}
	return d
}

// consumers puts together what is known of the pods.
func (s Situation) consumers() []consumer {
	endpoints := map[unique.Handle[pods.Template]]*endpoint{}
	var out []consumer
	for _, pod := range s.Pods {
		if pod.DeletionTimestamp != nil || pod.Template.Value().Left == pods.ReasonFinished {
			continue
		}
		at := endpoints[pod.Template]
		if at == nil {
			at = s.endpointOf(pod)
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

func (s Situation) endpointOf(pod *pods.Facts) *endpoint {
	t, own := pod.Template.Value(), hasPodKey(pod)
	switch {
	case s.isPodKeys():
		return podKeyEndpoint(t, pod.Mounts(), s.Services)
	case own && slices.ContainsFunc(s.Services, func(svc *corev1.Service) bool { return api.Asks(svc) && api.Selects(svc, t.Pod()) }):
		return &endpoint{} // it is judged with the others that have keys of their own
	}
	return endpointOf(t, s.Secret, s.Services)
}

// view is a Situation, what was derived from it, and the Decision that is being
// made.
type view struct {
	Situation
	cert      certificate
	consumers []consumer
	d         Decision

	agenda agenda
	states map[State]int // of all pods, also of those that are counted with another Secret
	groups groups
	stale  staleGroups
	// reported: a pod of the stale ones is not counted elsewhere.
	reported map[notification]bool
	// names and leaves are those of all visits for a Secret, nil before the first.
	names, leaves []string
}

func (v *view) decide() Decision {
	v.d = Decision{States: map[State]int{}, Judged: true, Memory: Memory{
		certificate: v.cert, begun: v.Memory.begun, empty: v.Memory.empty,
		pods: make(map[types.UID]*remembered, len(v.consumers)),
	}}
	if v.cert.leaf == v.Memory.certificate.leaf {
		v.d.Memory.notified = slices.Clone(v.Memory.notified)
	}
	v.states, v.groups, v.stale, v.reported = map[State]int{}, groups{index: map[groupKey]int{}}, staleGroups{}, map[notification]bool{}
	for _, c := range v.consumers {
		v.addConsumer(c)
	}
	if v.states[stateNotReady] < len(v.consumers) {
		v.d.Memory.empty = time.Time{}
	} else if v.d.Memory.empty.IsZero() {
		v.d.Memory.empty = v.Now
	}
	v.d.Seen = Seen{v.groups.sorted()}
	v.setConditions()
	v.setStale()
	v.d.Dial, v.d.After = v.agenda.dial, v.agenda.after
	return v.d
}

// addConsumer decides what follows from one pod, and adds it to those of its
// workload.
func (v *view) addConsumer(c consumer) {
	state, counts := c.state(v.cert, v.Pace), !v.isCountedElsewhere(c.pod)
	v.states[state]++
	if counts {
		v.d.States[state]++
	}
	v.agenda.add(c, v)
	v.remember(c)
	if state == statePending && len(c.answers) == 0 && c.seen.After(v.Memory.begun) {
		state = stateNew
	}
	if state == statePending && len(c.answers) < len(c.endpoint.ports) {
		v.d.Judged = false
	}
	v.groups.add(c, state, v.cert, v.Pace)
	if state == stateStale {
		if notAfter := c.firstExpiry(v.cert, v.Pace); counts && (v.d.NotAfter.IsZero() || notAfter.Before(v.d.NotAfter)) {
			v.d.NotAfter = notAfter
		}
		key := v.stale.add(c, v.cert, v.Pace)
		v.reported[key] = v.reported[key] || counts
	}
}

// setConditions decides the conditions.
func (v *view) setConditions() {
	var absent time.Duration
	if empty := v.d.Memory.empty; !empty.IsZero() {
		absent = v.Now.Sub(empty)
		if wait := v.Pace.settle() - absent; wait > 0 {
			v.agenda.look(wait)
		}
	}
	all := append(slices.Clone(v.d.Seen.groups), v.PodKeys.groups...)
	for _, svc := range v.Services {
		if !v.says(svc) {
			continue
		}
		if want := servingCondition(svc, v.Secret, all, v.cert, v.Pace, absent); want != nil {
			v.d.Conditions = append(v.d.Conditions, Change{svc, want})
		}
	}
}

// setStale decides which workloads are stale, and which of them an event reports:
// once for each workload and certificate, when all pods have been dialled after
// the propagation time, so that the event counts all of them.
func (v *view) setStale() {
	for key, g := range v.stale {
		g.Secret, g.Leaf = v.Secret, v.cert.leaf
		if !v.isPodKeys() {
			g.Since, g.Service, g.ServiceUID = v.cert.since, v.Services[0].Name, v.Services[0].UID
		}
		slices.Sort(g.BarePods)
		v.d.Stale = append(v.d.Stale, *g)
		if v.states[statePropagating] == 0 && v.reported[key] && !slices.Contains(v.d.Memory.notified, key) {
			v.d.Memory.notified = append(v.d.Memory.notified, key)
			v.d.Notify = append(v.d.Notify, *g)
		}
	}
	if v.isPodKeys() { // the next certificate of a pod is reported again
		v.d.Memory.notified = slices.DeleteFunc(v.d.Memory.notified, func(key notification) bool { return v.stale[key] == nil })
	}
	slices.SortFunc(v.d.Stale, StaleWorkload.Compare)
	slices.SortFunc(v.d.Notify, StaleWorkload.Compare)
}
