package serving

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// next returns when the pod is to be dialled, which may have been long ago; false
// if it is not to be.
//
// A silent pod is left alone for as long as it has been silent, whatever has changed
// meanwhile: its Services' ports, its Secret's certificate, its readiness. Ports of it
// that answered in time are dialled all the same.
func (c consumer) next(by standard, p Pace) (time.Time, bool) {
	if !c.pod.Ready || len(c.endpoint.ports) == 0 {
		return time.Time{}, false
	}
	complete := len(c.answers) == len(c.endpoint.ports)
	dialled := slices.ContainsFunc(c.answers, prompt)
	if complete && dialled {
		return by.regularly(c, c.state(by, p), p), true
	}
	at := c.seen.Add(c.jitter(c.seen, 0, p.Pause/5)) // for a port that was not dialled yet
	if last, ok := c.last(); complete {
		at = by.regularly(c, c.state(by, p), p)
	} else if ok {
		at = limit.Latest(at, last.At.Add(p.Pause))
	}
	at = limit.Latest(at, c.silentUntil(p))
	if dialled {
		at = limit.Earliest(at, by.regularly(c, c.state(by, p), p))
	}
	return at, true
}

// silentUntil is until when the ports of a silent pod that did not answer in time are
// left alone; zero if it is not silent.
func (c consumer) silentUntil(p Pace) time.Time {
	if c.silence.Last.IsZero() {
		return time.Time{}
	}
	return c.silence.Last.Add(min(max(p.Pause, c.silence.Last.Sub(c.silence.Since)), p.Interval*9/10))
}

// prompt reports whether a port is dialled even if the pod is silent.
func prompt(a probe.Answer) bool { return !a.Slow && a.Kind != probe.Plaintext }

// regularly implements standard. A new certificate takes up to the propagation time to
// reach a pod. Until then the pod is dialled after short pauses, and soon after it was
// woken. A pod that does not change after that is dialled after longer and longer ones, up
// to the interval for all pods.
func (c certificate) regularly(of consumer, state State, p Pace) time.Time {
	last, _ := of.last()
	settled := state == statePlaintext || state == stateCurrent
	switch {
	case last.At.Before(of.seen): // it was not ready in between: another process may serve
		return limit.Latest(of.seen.Add(of.jitter(of.seen, 0, p.Pause/5)), last.At.Add(p.Pause))
	case settled:
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

// due returns the ports that are to be dialled now, in order, and whether ports are left
// out because the pod is silent. A port without TLS takes the hello for a malformed
// request, and some servers count those: it is left alone for an interval.
func (c consumer) due(now time.Time, p Pace) (ports []uint16, partial bool) {
	silent := now.Before(c.silentUntil(p))
	for _, port := range c.endpoint.ports {
		i := slices.IndexFunc(c.answers, func(a probe.Answer) bool { return a.Port == port })
		switch {
		case i >= 0 && c.answers[i].Kind == probe.Plaintext && now.Before(c.answers[i].At.Add(p.Interval*9/10)):
		case silent && (i < 0 || c.answers[i].Slow):
			partial = true
		default:
			ports = append(ports, port)
		}
	}
	return probe.Order(ports, c.answers), partial
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
