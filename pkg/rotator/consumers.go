package rotator

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// State is what is known of a pod that mounts the key of an issued certificate.
type State string

// The states. Of a pod with several ports it is the first of these that one of
// them is in.
const (
	StateNotReady    State = "not_ready"   // gets no requests, and is not asked
	StateNoPort      State = "no_port"     // nothing tells a TCP port of it
	StateStale       State = "stale"       // an older certificate of the Secret, after the propagation time
	StatePropagating State = "propagating" // an older certificate of the Secret, within it
	StatePending     State = "pending"     // not asked yet, or not since the certificate changed
	StateCurrent     State = "current"     // what it should
	StateForeign     State = "foreign"     // another certificate: a mesh's, or one of its own
	StatePlaintext   State = "plaintext"   // no TLS
	StateUnreachable State = "unreachable" // no answer
)

// byWeight is the order of the states that a port can be in.
var byWeight = []State{StateStale, StatePropagating, StatePending, StateCurrent, StateForeign, StatePlaintext, StateUnreachable}

// answerKind is how a port answered.
type answerKind string

const (
	answeredTLS       answerKind = "tls"
	answeredPlaintext answerKind = "plaintext"
	answeredNothing   answerKind = "unreachable"
)

// answer is what a port said when it was dialled last.
type answer struct {
	port uint16
	kind answerKind
	at   time.Time // when the dial began
	// since is when a row of dials began that all had this answer.
	since time.Time

	// Of answeredTLS: the leaf's fingerprint and validity, and whether it is one
	// of the Secret, as far as the leaf itself tells (recognise.go).
	leaf                string
	notBefore, notAfter time.Time
	ours                bool
}

// same reports whether two dials said the same.
func (a answer) same(b answer) bool { return a.kind == b.kind && a.leaf == b.leaf }

// consumer is a pod that mounts the key, and what it answered.
type consumer struct {
	pod  *PodFacts
	door *door // shared by the pods of one template
	// seen is when this process first saw it ready. Zero if it is not.
	seen    time.Time
	answers []answer // of ports that are still the door's, by port
	// reached is the leaf that it was last seen to serve of those that it should.
	reached string
}

// pace is how fast things are expected to happen.
type pace struct {
	interval    time.Duration // between two looks at a pod that is as it should be
	propagation time.Duration // from a new certificate to pods that serve it
	pause       time.Duration // between two looks at a pod that is about to change
}

// settle is how long a pod must have been out of reach to be called so: most of
// those that do not answer are about to end.
func (p pace) settle() time.Duration { return 3 * p.pause }

// state judges a pod.
func (c consumer) state(cert certificate, p pace) State {
	switch {
	case !c.pod.Ready:
		return StateNotReady
	case len(c.door.ports) == 0:
		return StateNoPort
	case len(c.answers) < len(c.door.ports):
		return c.heaviest(cert, p, StatePending)
	}
	return c.heaviest(cert, p, StateUnreachable)
}

// heaviest returns the first state in order of weight of lightest and those of
// the ports.
func (c consumer) heaviest(cert certificate, p pace, lightest State) State {
	best := slices.Index(byWeight, lightest)
	for _, a := range c.answers {
		best = min(best, slices.Index(byWeight, a.state(cert, p)))
	}
	return byWeight[best]
}

func (a answer) state(cert certificate, p pace) State {
	switch {
	case a.kind == answeredPlaintext:
		return StatePlaintext
	case a.kind == answeredTLS && slices.Contains(cert.named, a.leaf):
		return StateCurrent
	case a.at.Before(cert.since):
		return StatePending
	case a.kind == answeredNothing && a.at.Sub(a.since) < p.settle():
		return StatePending
	case a.kind == answeredNothing:
		return StateUnreachable
	case !a.older(cert) && a.ours:
		return StatePending // the signer has written the Secret, and not yet the condition
	case !a.older(cert):
		return StateForeign
	case a.at.Before(cert.since.Add(p.propagation)):
		return StatePropagating
	}
	return StateStale
}

// older reports whether the leaf is an earlier one of the Secret: one that it is
// known to have held, or one of its names that was issued before the one that it
// holds.
func (a answer) older(cert certificate) bool {
	switch {
	case slices.Contains(cert.former, a.leaf):
		return true
	case !a.ours:
		return false
	case !cert.notBefore.IsZero():
		return !a.notBefore.After(cert.notBefore)
	}
	// Nobody was seen to serve the one that it holds: what was issued before that
	// was known of is older.
	return !a.notBefore.Add(pki.Backdate).After(cert.since)
}

// firstEnd returns when the first of the leaves ends for which the pod is stale.
func (c consumer) firstEnd(cert certificate, p pace) time.Time {
	var first time.Time
	for _, a := range c.answers {
		if a.state(cert, p) == StateStale && (first.IsZero() || a.notAfter.Before(first)) {
			first = a.notAfter
		}
	}
	return first
}

// readsElsewhere reports whether the pod, if it serves an older leaf, has it from
// somewhere else than the Secret's files: they held the new one already when it
// was created. To restart it would not help.
func (c consumer) readsElsewhere(cert certificate) bool {
	return c.pod.CreationTimestamp.After(cert.since)
}
