package serving

import (
	"maps"
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
	// a condition Serving.
	Secret string
	// Services have a part in the Secret, oldest first.
	Services []*corev1.Service
	// Pods mount the Secret's key.
	Pods []*pods.Facts
	// Silences are those of the Pods that do not answer in time.
	Silences map[types.UID]probe.Silence
	// Memory is that of the last Decision about the Secret, with what pods have
	// answered since.
	Memory Memory
	Pace   Pace
	// Off: pods are not dialled (--verify-consumers=false).
	Off bool
}

// Decision is what follows for the Secret.
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
	// expires that stale pods serve, zero if none is stale.
	States   map[State]int
	NotAfter time.Time
	// Arrivals are how long the certificate took to each of the pods that were seen
	// to serve it for the first time.
	Arrivals []time.Duration
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
			at = endpointOf(pod.Template.Value(), s.Secret, s.Services)
			endpoints[pod.Template] = at
		}
		c := recall(pod, at, s.Memory.pods[pod.UID], s.Now)
		c.silence = s.Silences[pod.UID]
		out = append(out, c)
	}
	return out
}

// view is a Situation, what was derived from it, and the Decision that is being
// made.
type view struct {
	Situation
	cert      certificate
	consumers []consumer
	d         Decision

	groups groups
	stale  staleGroups
}

func (v *view) decide() Decision {
	v.d = Decision{States: map[State]int{}, Judged: true, Memory: Memory{
		certificate: v.cert, begun: v.Memory.begun, empty: v.Memory.empty,
		notified: map[notification]bool{}, pods: make(map[types.UID]remembered, len(v.consumers)),
	}}
	if v.cert.leaf == v.Memory.certificate.leaf {
		maps.Copy(v.d.Memory.notified, v.Memory.notified)
	}
	v.groups, v.stale = groups{index: map[groupKey]int{}}, staleGroups{}
	for _, c := range v.consumers {
		v.addConsumer(c)
	}
	if v.d.States[stateNotReady] < len(v.consumers) {
		v.d.Memory.empty = time.Time{}
	} else if v.d.Memory.empty.IsZero() {
		v.d.Memory.empty = v.Now
	}
	v.setConditions()
	v.setStale()
	return v.d
}

// addConsumer decides what follows from one pod, and adds it to those of its
// workload.
func (v *view) addConsumer(c consumer) {
	state := c.state(v.cert, v.Pace)
	v.d.States[state]++
	v.schedule(c)
	v.remember(c)
	if state == statePending && len(c.answers) == 0 && c.seen.After(v.Memory.begun) {
		state = stateNew
	}
	if state == statePending && len(c.answers) < len(c.endpoint.ports) {
		v.d.Judged = false
	}
	v.groups.add(c, state)
	if state == stateStale {
		if notAfter := c.firstExpiry(v.cert, v.Pace); v.d.NotAfter.IsZero() || notAfter.Before(v.d.NotAfter) {
			v.d.NotAfter = notAfter
		}
		v.stale.add(c, v.cert)
	}
}

// schedule has the pod dialled now, or notes when to look again.
func (v *view) schedule(c consumer) {
	at, ok := c.next(v.cert, v.Pace)
	switch {
	case !ok:
	case at.After(v.Now):
		v.lookAfter(at.Sub(v.Now))
	default:
		ports, partial := c.due(v.Now, v.Pace)
		if len(ports) == 0 {
			v.lookAfter(v.Pace.Pause)
			return
		}
		v.d.Dial = append(v.d.Dial, probe.Visit{
			Key:     probe.Key{Secret: types.NamespacedName{Namespace: v.Namespace, Name: v.Secret}, Pod: c.pod.UID},
			Address: c.pod.IP, HostNetwork: c.pod.HostNetwork, OnNode: c.pod.OnNode, Ports: ports, Partial: partial,
			Name: c.endpoint.name, Names: hostnames(v.Services), Leaves: v.cert.known(),
		})
	}
}

func (v *view) lookAfter(wait time.Duration) {
	if v.d.After == 0 || wait < v.d.After {
		v.d.After = wait
	}
}

// remember notes what is known of the pod. One that is seen to serve the
// certificate for the first time says how long that took, if it was seen to serve
// an earlier one before, and when the certificate became valid.
func (v *view) remember(c consumer) {
	for _, a := range c.answers {
		if a.Kind != probe.TLS || a.Leaf != v.cert.leaf {
			continue
		}
		v.d.Memory.certificate.notBefore = a.NotBefore
		if c.reached != "" && c.reached != v.cert.leaf {
			v.d.Arrivals = append(v.d.Arrivals, max(0, a.At.Sub(v.cert.since)))
		}
		c.reached = v.cert.leaf
		break
	}
	v.d.Memory.pods[c.pod.UID] = remembered{seen: c.seen, reached: c.reached, woken: c.woken}
}

// setConditions decides the conditions.
func (v *view) setConditions() {
	var absent time.Duration
	if empty := v.d.Memory.empty; !empty.IsZero() {
		absent = v.Now.Sub(empty)
		if wait := v.Pace.settle() - absent; wait > 0 {
			v.lookAfter(wait)
		}
	}
	all := v.groups.sorted()
	for _, svc := range v.Services {
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
		g.Secret, g.Leaf, g.Since = v.Secret, v.cert.leaf, v.cert.since
		g.Service, g.ServiceUID = v.Services[0].Name, v.Services[0].UID
		slices.Sort(g.BarePods)
		v.d.Stale = append(v.d.Stale, *g)
		if v.d.States[statePropagating] == 0 && !v.d.Memory.notified[key] {
			v.d.Memory.notified[key] = true
			v.d.Notify = append(v.d.Notify, *g)
		}
	}
	slices.SortFunc(v.d.Stale, StaleWorkload.Compare)
	slices.SortFunc(v.d.Notify, StaleWorkload.Compare)
}

func hostnames(services []*corev1.Service) []string {
	names := make([]string, len(services))
	for i, svc := range services {
		names[i] = hostname(svc)
	}
	return names
}
