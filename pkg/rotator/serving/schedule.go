package serving

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// schedule has the pods to dial now, and when to decide again; 0: only after a change.
type schedule struct {
	dial  []probe.Target
	after time.Duration
}

// add adds the pod if it is due, or else when it will be.
func (s *schedule) add(c consumer, v *view) {
	at, ok := c.next(v.about, v.Pace)
	if !ok {
		return
	}
	if at.After(v.Now) {
		s.requeue(at.Sub(v.Now))
		return
	}
	ports, partial := c.due(v.Now, v.Pace)
	if len(ports) == 0 {
		s.requeue(v.Pace.Pause)
		return
	}
	target := v.target(c)
	target.Ports, target.Partial, target.Guards = ports, partial, c.strangers(ports, v.Now, v.Pace)
	s.dial = append(s.dial, target)
}

// requeue schedules the next decision after the wait, or earlier.
func (s *schedule) requeue(wait time.Duration) {
	if s.after == 0 || wait < s.after {
		s.after = wait
	}
}

// target returns the target for the pod, without its ports.
func (v *view) target(c consumer) probe.Target {
	target := probe.Target{
		Key:     probe.Key{Of: pods.NamespacedKey{Namespace: v.Namespace, Key: v.about.key()}, Pod: c.pod.UID},
		Address: c.pod.IP, HostNetwork: c.pod.HostNetwork, OnNode: c.pod.OnNode,
		Name: c.endpoint.name, Protocols: c.endpoint.protocols, Proxied: c.endpoint.proxied,
	}
	v.about.complete(&target, c.endpoint)
	return target
}

func hostnames(services []*corev1.Service) []string {
	names := make([]string, len(services))
	for i, svc := range services {
		names[i] = hostname(svc)
	}
	return names
}

// next returns when to dial the pod, which may be in the past; false if it is not to be dialled.
//
// An unresponsive pod is left alone for as long as it has been unresponsive, whatever has changed
// since then: its Services' ports, its Secret's certificate, its readiness. Its ports that answered
// in time are still dialled.
func (c consumer) next(by standard, p Pace) (time.Time, bool) {
	if !c.pod.Ready || len(c.endpoint.ports) == 0 {
		return time.Time{}, false
	}
	complete := len(c.answers) == len(c.endpoint.ports)
	dialled := slices.ContainsFunc(c.answers, prompt)
	if complete && dialled {
		at := by.regularly(c, c.state(by, p), p)
		if sooner, ok := c.strangersTry(p); ok {
			at = limit.Earliest(at, sooner)
		}
		return at, true
	}
	at := c.seen.Add(c.jitter(c.seen, 0, p.Pause/5)) // for a port without an answer
	if last, ok := c.last(); complete {
		at = by.regularly(c, c.state(by, p), p)
	} else if ok {
		at = limit.Latest(at, last.At.Add(p.Pause))
	}
	at = limit.Latest(at, c.backoffUntil(p))
	if dialled {
		at = limit.Earliest(at, by.regularly(c, c.state(by, p), p))
	}
	return at, true
}

// backoffUntil returns until when the ports of an unresponsive pod that timed out are left alone;
// zero if the pod responds.
func (c consumer) backoffUntil(p Pace) time.Time {
	if c.unresponsive.Last.IsZero() {
		return time.Time{}
	}
	return c.unresponsive.Last.Add(min(max(p.Pause, c.unresponsive.Last.Sub(c.unresponsive.Since)), p.Interval*9/10))
}

// prompt reports whether a port is dialled even if the pod is unresponsive.
func prompt(a probe.Answer) bool { return !a.Slow && a.Kind != probe.Plaintext }

// regularly implements standard. A new certificate takes up to the propagation time to reach a pod.
// Until then the pod is dialled at short intervals, and soon after it was woken. Afterwards the
// intervals grow up to that of all pods while the pod does not change.
func (c certificate) regularly(of consumer, state State, p Pace) time.Time {
	last, _ := of.last()
	stable := state == statePlaintext || state == stateCurrent
	switch {
	case last.At.Before(of.seen): // it was not ready since: another process may serve
		return limit.Latest(of.seen.Add(of.jitter(of.seen, 0, p.Pause/5)), last.At.Add(p.Pause))
	case stable:
		return of.rarely(last.At, p)
	case last.At.Before(of.woken.Add(afterWake[len(afterWake)-1])):
		return of.afterWake(last.At)
	case last.At.Before(c.since):
		return c.since.Add(of.jitter(c.since, p.Pause/2, p.Pause))
	}
	var lasted time.Duration // in a state that may stay
	switch state {
	case statePropagating:
	case stateStale:
		lasted = last.At.Sub(c.since.Add(p.Propagation))
	default:
		lasted = last.At.Sub(last.Since)
	}
	wait := max(p.Pause, lasted)
	if wait*5/4 >= p.Interval {
		return of.rarely(last.At, p)
	}
	return last.At.Add(of.jitter(last.At, wait, wait/2))
}

// afterWake are the times of the dials after a kubelet was made to update a pod's files, which
// takes 0.05 to 0.25 s: a server that watches its files is ready at the first, one that polls them
// later.
var afterWake = [...]time.Duration{300 * time.Millisecond, time.Second}

// afterWake returns the first of these times after the last dial. There must be one.
func (c consumer) afterWake(last time.Time) time.Time {
	for _, wait := range afterWake[:len(afterWake)-1] {
		if at := c.woken.Add(wait); last.Before(at) {
			return at
		}
	}
	return c.woken.Add(afterWake[len(afterWake)-1])
}

// rarely returns when to dial a pod again that is not expected to change.
func (c consumer) rarely(last time.Time, p Pace) time.Time {
	return last.Add(c.jitter(last, p.Interval*9/10, p.Interval/5))
}

// last returns the latest answer; false if there is none.
func (c consumer) last() (probe.Answer, bool) {
	var latest probe.Answer
	for _, a := range c.answers {
		if a.At.After(latest.At) {
			latest = a
		}
	}
	return latest, len(c.answers) > 0
}

// due returns the ports to dial now, in order, and whether ports are left out because the pod is
// unresponsive. A server without TLS takes a ClientHello for a malformed request and may count it
// as an error, so such a port is dialled once per interval.
func (c consumer) due(now time.Time, p Pace) (ports []uint16, partial bool) {
	unresponsive := now.Before(c.backoffUntil(p))
	for _, port := range c.endpoint.ports {
		i := slices.IndexFunc(c.answers, func(a probe.Answer) bool { return a.Port == port })
		switch {
		case i >= 0 && c.answers[i].Kind == probe.Plaintext && now.Before(c.answers[i].At.Add(p.Interval*9/10)):
		case unresponsive && (i < 0 || c.answers[i].Slow):
			partial = true
		default:
			ports = append(ports, port)
		}
	}
	return probe.Order(ports, c.answers), partial
}

// jitter returns a duration from least to least plus spread that only depends on the pod and the
// moment. So pods that were dialled in the same second are dialled at different times next,
// whichever replica leads.
func (c consumer) jitter(moment time.Time, least, spread time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.pod.UID)) // a hash does not fail
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(moment.UnixNano())))
	mixed := h.Sum64() * 0x9e3779b97f4a7c15 // the high bits of FNV depend little on the last bytes
	return least + time.Duration(float64(spread)*float64((mixed^mixed>>32)>>11&(1<<53-1))/(1<<53))
}
