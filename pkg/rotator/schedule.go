package rotator

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// next returns when the pod is to be dialled, which may have been long ago; false
// if it is not to be.
//
// A new certificate takes up to the propagation time to get into a pod: until then
// it is asked again and again, in short pauses, and those that do not change after
// that in longer and longer ones, up to the interval at which everybody is.
func (c consumer) next(cert certificate, p pace) (time.Time, bool) {
	if !c.pod.Ready || len(c.door.ports) == 0 {
		return time.Time{}, false
	}
	last, ok := c.last()
	if !ok || len(c.answers) < len(c.door.ports) {
		return c.seen.Add(c.jitter(c.seen, 0, p.pause/5)), true
	}
	state := c.state(cert, p)
	settled := state == StatePlaintext || state == StateCurrent
	switch {
	case last.at.Before(c.seen): // it was not ready in between: another process may serve
		soon := c.seen.Add(c.jitter(c.seen, 0, p.pause/5))
		if least := last.at.Add(p.pause); least.After(soon) {
			return least, true
		}
		return soon, true
	case settled:
		return c.rarely(last.at, p), true
	case last.at.Before(cert.since):
		return cert.since.Add(c.jitter(cert.since, p.pause/2, p.pause)), true
	}
	var lasted time.Duration // in a state that may stay
	switch state {
	case StatePropagating:
	case StateStale:
		lasted = last.at.Sub(cert.since.Add(p.propagation))
	default:
		lasted = last.at.Sub(last.since)
	}
	wait := max(p.pause, lasted)
	if wait*5/4 >= p.interval {
		return c.rarely(last.at, p), true
	}
	return last.at.Add(c.jitter(last.at, wait, wait/2)), true
}

// rarely is when to look again at a pod that is not expected to change.
func (c consumer) rarely(last time.Time, p pace) time.Time {
	return last.Add(c.jitter(last, p.interval*9/10, p.interval/5))
}

// last returns the answer that was got last, false if there is none.
func (c consumer) last() (answer, bool) {
	var latest answer
	for _, a := range c.answers {
		if a.at.After(latest.at) {
			latest = a
		}
	}
	return latest, len(c.answers) > 0
}

// due returns the ports that are to be dialled at now. A port that does not speak
// TLS takes the hello for a damaged request, and some servers count those: it is
// left alone for an interval.
func (c consumer) due(now time.Time, p pace) []uint16 {
	var ports []uint16
	for _, port := range c.door.ports {
		plain := false
		for _, a := range c.answers {
			plain = plain || a.port == port && a.kind == answeredPlaintext && now.Before(a.at.Add(p.interval*9/10))
		}
		if !plain {
			ports = append(ports, port)
		}
	}
	return ports
}

// jitter returns a time from at least to at least plus spread, that depends on the
// pod and on the moment and on nothing else: pods that were all asked in one
// second are asked in different ones the next time, by whoever leads.
func (c consumer) jitter(moment time.Time, least, spread time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.pod.UID)) // a hash does not fail
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(moment.UnixNano())))
	mixed := h.Sum64() * 0x9e3779b97f4a7c15 // the high bits of FNV depend little on the last bytes
	return least + time.Duration(float64(spread)*float64((mixed^mixed>>32)>>11&(1<<53-1))/(1<<53))
}
