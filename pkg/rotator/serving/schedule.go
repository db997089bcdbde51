package serving

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// next returns when the pod is to be dialled, which may have been long ago; false
// if it is not to be.
//
// A new certificate takes up to the propagation time to reach a pod. Until then the
// pod is dialled after short pauses, and soon after it was woken. A pod that does not
// change after that is dialled after longer and longer ones, up to the interval for
// all pods.
func (c consumer) next(cert certificate, p Pace) (time.Time, bool) {
	if !c.pod.Ready || len(c.endpoint.ports) == 0 {
		return time.Time{}, false
	}
	last, ok := c.last()
	if !ok || len(c.answers) < len(c.endpoint.ports) {
		return c.seen.Add(c.jitter(c.seen, 0, p.Pause/5)), true
	}
	state := c.state(cert, p)
	settled := state == statePlaintext || state == stateCurrent
	switch {
	case last.At.Before(c.seen): // it was not ready in between: another process may serve
		soon := c.seen.Add(c.jitter(c.seen, 0, p.Pause/5))
		if least := last.At.Add(p.Pause); least.After(soon) {
			return least, true
		}
		return soon, true
	case settled:
		return c.rarely(last.At, p), true
	case last.At.Before(c.woken.Add(afterWake[len(afterWake)-1])):
		return c.afterWake(last.At), true
	case last.At.Before(cert.since):
		return cert.since.Add(c.jitter(cert.since, p.Pause/2, p.Pause)), true
	}
	var lasted time.Duration // in a state that may stay
	switch state {
	case statePropagating:
	case stateStale:
		lasted = last.At.Sub(cert.since.Add(p.Propagation))
	default:
		lasted = last.At.Sub(last.Since)
	}
	wait := max(p.Pause, lasted)
	if wait*5/4 >= p.Interval {
		return c.rarely(last.At, p), true
	}
	return last.At.Add(c.jitter(last.At, wait, wait/2)), true
}

// afterWake is when a pod is dialled whose kubelet was made to update its files: that
// takes 0.05 to 0.25 s. A server that watches its files then serves the new ones, and
// one that looks at them from time to time does so later.
var afterWake = [...]time.Duration{300 * time.Millisecond, time.Second}

// afterWake returns the first of these moments after the last dial. There must be
// one.
func (c consumer) afterWake(last time.Time) time.Time {
	for _, wait := range afterWake[:len(afterWake)-1] {
		if at := c.woken.Add(wait); last.Before(at) {
			return at
		}
	}
	return c.woken.Add(afterWake[len(afterWake)-1])
}

// rarely is when to look again at a pod that is not expected to change.
func (c consumer) rarely(last time.Time, p Pace) time.Time {
	return last.Add(c.jitter(last, p.Interval*9/10, p.Interval/5))
}

// last returns the answer that was got last, false if there is none.
func (c consumer) last() (probe.Answer, bool) {
	var latest probe.Answer
	for _, a := range c.answers {
		if a.At.After(latest.At) {
			latest = a
		}
	}
	return latest, len(c.answers) > 0
}

// due returns the ports that are to be dialled now. A port without TLS takes the
// hello for a malformed request, and some servers count those: it is left alone for
// an interval.
func (c consumer) due(now time.Time, p Pace) []uint16 {
	var ports []uint16
	for _, port := range c.endpoint.ports {
		plain := false
		for _, a := range c.answers {
			plain = plain || a.Port == port && a.Kind == probe.Plaintext && now.Before(a.At.Add(p.Interval*9/10))
		}
		if !plain {
			ports = append(ports, port)
		}
	}
	return ports
}

// jitter returns a time from at least to at least plus spread, that depends on the
// pod and on the moment and on nothing else: pods that were all dialled in one
// second are dialled in different ones the next time, whichever replica leads.
func (c consumer) jitter(moment time.Time, least, spread time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.pod.UID)) // a hash does not fail
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(moment.UnixNano())))
	mixed := h.Sum64() * 0x9e3779b97f4a7c15 // the high bits of FNV depend little on the last bytes
	return least + time.Duration(float64(spread)*float64((mixed^mixed>>32)>>11&(1<<53-1))/(1<<53))
}
