package serving

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// State is what is known of a pod that mounts the key of an issued certificate.
type State string

// The states. Of a pod it is that of the ports which are the furthest from serving; see
// consumer.state.
const (
	stateNotReady    State = "not_ready"   // gets no requests, and is not dialled
	stateNoPort      State = "no_port"     // no TCP port of it is known
	stateStale       State = "stale"       // an older certificate of the Secret, after the propagation time
	statePropagating State = "propagating" // an older certificate of the Secret, within it
	statePending     State = "pending"     // not dialled yet, or not since the certificate changed
	stateCurrent     State = "current"     // the certificate that it should
	stateForeign     State = "foreign"     // another certificate: a mesh's, or one of its own
	statePlaintext   State = "plaintext"   // no TLS
	// stateNotVerified: its address is not dialled, or its answer could not be judged.
	stateNotVerified State = "not_verified"
	stateUnreachable State = "unreachable" // no answer
)

// byWeight is the order of the states that a port can be in, of ports of which one is to serve.
var byWeight = []State{stateStale, statePropagating, statePending, stateCurrent, stateForeign, statePlaintext, stateNotVerified, stateUnreachable}

// byUrgency is the order of the states of sets of ports, each of which is to serve.
var byUrgency = []State{stateStale, statePropagating, statePending, stateForeign, statePlaintext, stateNotVerified, stateUnreachable, stateCurrent}

// consumer is a pod that mounts the key or mirrors a static pod, and what it answered.
type consumer struct {
	pod      *pods.Facts
	endpoint *endpoint // shared by the pods of one template
	// seen is when this process first saw it ready. Zero if it is not.
	seen    time.Time
	answers []probe.Answer // of ports that are still the endpoint's and asked in the same way, by port
	silence probe.Silence  // of the pod, whichever ports are the endpoint's
	// reached is the leaf that it was last seen to serve of those that it should, and of a
	// pod with a key of its own refreshAt when its kubelet was asked to replace that.
	reached   string
	refreshAt time.Time
	woken     time.Time // when the kubelet was last made to update its files
}

// Pace is how fast things are expected to happen.
type Pace struct {
	Interval    time.Duration // between two looks at a pod that is as it should be
	Propagation time.Duration // from a new certificate to pods that serve it
	Pause       time.Duration // between two looks at a pod that is about to change
}

// settle is how long a pod must have been out of reach to be called so: most of
// those that do not answer are about to end.
func (p Pace) settle() time.Duration { return 3 * p.Pause }

// standard is what the certificates that pods serve are judged by: that of a Secret, or for
// keys of the pods' own what clients trust.
type standard interface {
	// state returns the state of a port by what it answered. demanded are the names that the
	// certificate of a pod's own key must have.
	state(a probe.Answer, demanded string, p Pace) State
	// overdue returns since when a stale pod should serve another certificate: the first of
	// its ports. distrusted: clients do not accept one, which is not to be refreshed yet.
	overdue(c consumer, p Pace) (since time.Time, distrusted bool)
	// regularly returns when a pod is dialled of which some port has answered.
	regularly(c consumer, state State, p Pace) time.Time
}

// state judges a pod: by the one of the sets of its ports that is the first by urgency.
func (c consumer) state(by standard, p Pace) State {
	switch {
	case !c.pod.Ready:
		return stateNotReady
	case len(c.endpoint.sets) == 0 || len(c.endpoint.ports) == 0:
		return stateNoPort
	}
	first := len(byUrgency) - 1
	for _, set := range c.endpoint.sets {
		first = min(first, slices.Index(byUrgency, c.stateAt(set, by, p)))
	}
	return byUrgency[first]
}

// stateAt judges a pod at ports of which one is to serve: by the first state in order of weight.
func (c consumer) stateAt(set []uint16, by standard, p Pace) State {
	switch {
	case !c.pod.Ready:
		return stateNotReady
	case len(set) == 0:
		return stateNotVerified // it has more ports than are dialled
	}
	best, answered := slices.Index(byWeight, stateUnreachable), 0
	for _, a := range c.answers {
		if !slices.Contains(set, a.Port) {
			continue
		}
		answered++
		state := by.state(a, c.endpoint.demanded[a.Port], c.paced(p))
		if a.Kind == probe.NoAnswer && a.Slow && c.silent(p) {
			state = stateUnreachable
		}
		best = min(best, slices.Index(byWeight, state))
	}
	if answered < len(set) && !c.silent(p) {
		best = min(best, slices.Index(byWeight, statePending))
	}
	return byWeight[best]
}

// paced returns the pace of the pod. One that takes up what is in a Secret only when it is started again
// serves the older certificate from the moment on at which the Secret holds a new one: its new files would
// change nothing, and a pod that takes its place begins with them.
func (c consumer) paced(p Pace) Pace {
	if t := c.pod.Template.Value(); t.Restarts && !t.HasPodKey() {
		p.Propagation = 0
	}
	return p
}

// silent reports whether ports of the pod have taken too long for so long that it may be
// called unreachable. Not every port need have been dialled since: a visit ends with the
// first one that takes too long.
func (c consumer) silent(p Pace) bool { return c.silence.Last.Sub(c.silence.Since) >= p.settle() }

// state implements standard.
func (c certificate) state(a probe.Answer, _ string, p Pace) State {
	switch {
	case a.Kind == probe.Plaintext:
		return statePlaintext
	case a.Kind == probe.NotVerified:
		return stateNotVerified
	case a.Kind == probe.TLS && slices.Contains(c.named, a.Leaf):
		return stateCurrent
	case a.Kind == probe.NoAnswer && a.At.Sub(a.Since) < p.settle():
		return statePending
	case a.Kind == probe.NoAnswer && a.Slow: // it is not dialled any sooner for a new certificate
		return stateUnreachable
	case a.At.Before(c.since):
		return statePending
	case a.Kind == probe.NoAnswer:
		return stateUnreachable
	case !isOlder(a, c) && a.Ours:
		return statePending // the signer has written the Secret, and not yet the condition
	case !isOlder(a, c):
		return stateForeign
	case a.At.Before(c.since.Add(p.Propagation)):
		return statePropagating
	}
	return stateStale
}

// overdue implements standard: a new certificate of the Secret is for all its pods.
func (c certificate) overdue(consumer, Pace) (since time.Time, distrusted bool) {
	return c.since, false
}

// isOlder reports whether the leaf is an earlier one of the Secret: one that it is
// known to have held, or one of its names that was issued before the one that it
// holds.
func isOlder(a probe.Answer, cert certificate) bool {
	switch {
	case slices.Contains(cert.former, a.Leaf):
		return true
	case !a.Ours:
		return false
	case !cert.notBefore.IsZero():
		return !a.NotBefore.After(cert.notBefore)
	}
	// No pod was seen to serve the leaf that the Secret holds. A leaf that was issued
	// before that one was known is older.
	return !a.NotBefore.Add(pki.Backdate).After(cert.since)
}

// firstExpiry returns when the first of the leaves expires for which the pod is
// stale.
func (c consumer) firstExpiry(by standard, p Pace) time.Time {
	var first time.Time
	for _, a := range c.answers {
		if by.state(a, c.endpoint.demanded[a.Port], c.paced(p)) == stateStale && (first.IsZero() || a.NotAfter.Before(first)) {
			first = a.NotAfter
		}
	}
	return first
}

// readsOtherFiles reports whether the pod, if it serves an older leaf, reads it
// from other files than the Secret's: those held the new one already when the pod
// was created. A restart would not help. The files of a static pod are filled by something
// else, at some other time.
func (c consumer) readsOtherFiles(by standard, p Pace) bool {
	if c.pod.Template.Value().Mirror() {
		return false
	}
	since, _ := by.overdue(c, p)
	return c.pod.CreationTimestamp.After(since)
}
