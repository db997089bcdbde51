package serving

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// State is the state of a pod that mounts the key of an issued certificate.
type State string

// The states. A pod has the state of the set of ports that is furthest from serving; see
// consumer.state.
const (
	stateNotReady    State = "not_ready"   // receives no requests, and is not dialled
	stateNoPort      State = "no_port"     // no known TCP port
	stateStale       State = "stale"       // an older certificate of the Secret, after the propagation time
	statePropagating State = "propagating" // an older certificate of the Secret, within the propagation time
	statePending     State = "pending"     // not dialled yet, or not since the certificate changed
	stateCurrent     State = "current"     // the right certificate
	stateForeign     State = "foreign"     // another certificate: a service mesh's, or the program's own
	statePlaintext   State = "plaintext"   // no TLS
	// stateNotVerified: its address is not dialled, or its answer was not understood.
	stateNotVerified State = "not_verified"
	stateUnreachable State = "unreachable" // no answer
)

// byWeight orders the states of alternative ports, where one has to serve: the first state counts.
var byWeight = []State{stateStale, statePropagating, statePending, stateCurrent, stateForeign, statePlaintext, stateNotVerified, stateUnreachable}

// byUrgency orders the states of sets of ports, where each has to serve: the first state counts.
var byUrgency = []State{stateStale, statePropagating, statePending, stateForeign, statePlaintext, stateNotVerified, stateUnreachable, stateCurrent}

// ofSecret are the states of pods that serve a certificate of the Secret, or may.
var ofSecret = []State{stateStale, statePropagating, statePending, stateCurrent}

// consumer is a pod that mounts the key or mirrors a static pod, with its answers.
type consumer struct {
	pod      *pods.Facts
	endpoint *endpoint // shared by the pods of one template
	// seen is when this process first saw it ready; zero if it is not.
	seen         time.Time
	answers      []probe.Answer           // of ports that the endpoint still has, with the same protocol; by port
	dialled      bool                     // at some time, on any port
	unresponsive probe.UnresponsivePeriod // of the pod, on any port
	// reached is the last of the right leaves that it was seen to serve. If the pod has its own
	// key, refreshAt is when its kubelet was due to replace that leaf.
	reached   string
	refreshAt time.Time
	woken     time.Time // when the kubelet was last made to update its files
	// admitsSince is when this process saw its list of clients change; zero if it did not.
	admitsSince time.Time
	list        podList
	now         time.Time // of the decision
}

// Pace has the times between dials, and those within which changes are expected.
type Pace struct {
	Interval    time.Duration // between two dials of a pod that serves its certificate
	Propagation time.Duration // from a new certificate until pods serve it
	Pause       time.Duration // between two dials of a pod that is about to change
}

// confirmAfter is how long a pod must have been unreachable to be reported: most pods that do not
// answer are about to terminate.
func (p Pace) confirmAfter() time.Duration { return 3 * p.Pause }

// standard evaluates answers: by the certificate of a Secret, or by the CA bundle for the pods' own
// keys.
type standard interface {
	// state returns the state of a port by its answer. demanded is what the certificate of a pod's own
	// key must be.
	state(a probe.Answer, demanded probe.Demand, p Pace) State
	// linked reports whether clients verify the shown leaf with the certificates that were sent with it.
	linked(a probe.Answer) bool
	// overdue returns when a stale pod should have begun to serve another certificate, at the first
	// of its ports. distrusted: clients do not accept a certificate that is not due for refresh.
	overdue(c consumer, p Pace) (since time.Time, distrusted bool)
	// regularly returns when to dial a pod again that has answered at some port.
	regularly(c consumer, state State, p Pace) time.Time
}

// state returns the state of the pod: that of the set of its ports which is first by urgency.
func (c consumer) state(by standard, p Pace) State {
	switch {
	case !c.pod.Ready:
		return stateNotReady
	case len(c.endpoint.sets) == 0 || len(c.endpoint.ports) == 0:
		return stateNoPort
	}
	first := len(byUrgency)
	for i := range c.endpoint.sets {
		state := c.stateAt(i, by, p)
		if c.endpoint.unasked[i] && !slices.Contains(ofSecret, state) {
			continue
		}
		first = min(first, slices.Index(byUrgency, state))
	}
	if first == len(byUrgency) {
		return stateNoPort // at which it should serve
	}
	return byUrgency[first]
}

// stateAt returns the state of the pod at one of its endpoint's sets of alternative ports: the first state by weight.
func (c consumer) stateAt(i int, by standard, p Pace) State {
	set := c.endpoint.sets[i]
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
		if a.Kind == probe.NoAnswer && a.Slow && c.isUnresponsive(p) {
			state = stateUnreachable
		}
		best = min(best, slices.Index(byWeight, state))
	}
	if answered < len(set) && !c.isUnresponsive(p) {
		best = min(best, slices.Index(byWeight, statePending))
	}
	if c.endpoint.cut[i] && best > slices.Index(byWeight, stateCurrent) {
		return stateNotVerified
	}
	return byWeight[best]
}

// paced returns the pace of the pod. A pod that reads a Secret only at its start is stale as soon
// as the Secret has a new certificate: new files change nothing, and its replacement starts with
// them.
func (c consumer) paced(p Pace) Pace {
	if t := c.pod.Template.Value(); t.Restarts && !t.HasPodKey() {
		p.Propagation = 0
	}
	return p
}

// isUnresponsive reports whether the pod has been unresponsive for long enough to be called
// unreachable. Some ports may not have been dialled since: a dial of a pod ends at the first port
// that times out.
func (c consumer) isUnresponsive(p Pace) bool {
	return c.unresponsive.Last.Sub(c.unresponsive.Since) >= p.confirmAfter()
}

// state implements standard.
func (c certificate) state(a probe.Answer, _ probe.Demand, p Pace) State {
	switch {
	case a.Kind == probe.Plaintext:
		return statePlaintext
	case a.Kind == probe.NotVerified:
		return stateNotVerified
	case a.Kind == probe.TLS && slices.Contains(c.named, a.Leaf) && c.linked(a):
		return stateCurrent
	case a.Kind == probe.NoAnswer && a.At.Sub(a.Since) < p.confirmAfter():
		return statePending
	case a.Kind == probe.NoAnswer && a.Slow: // a new certificate does not bring the next dial forward
		return stateUnreachable
	case a.At.Before(c.since):
		return statePending
	case a.Kind == probe.NoAnswer:
		return stateUnreachable
	case !isOlder(a, c) && a.Ours && a.At.Sub(a.Since) < max(p.Propagation, p.confirmAfter()):
		return statePending // the signer has written the Secret, but not yet the condition
	case !isOlder(a, c):
		return stateForeign
	case a.At.Before(c.since.Add(p.Propagation)):
		return statePropagating
	}
	return stateStale
}

// overdue implements standard. A new certificate of the Secret applies to all its pods.
func (c certificate) overdue(consumer, Pace) (since time.Time, distrusted bool) {
	return c.since, false
}

// isOlder reports whether the leaf is an earlier one of the Secret: a known one, or one that has
// its names and was issued before the current one; or the current one with an earlier chain.
func isOlder(a probe.Answer, cert certificate) bool {
	switch {
	case slices.Contains(cert.former, a.Leaf), !cert.linked(a):
		return true
	case !a.Ours:
		return false
	case !cert.notBefore.IsZero():
		return !a.NotBefore.After(cert.notBefore)
	}
	// No pod was seen to serve the current leaf. A leaf issued before that became known is older.
	return !a.NotBefore.Add(pki.Backdate).After(cert.since)
}

// firstExpiry returns the earliest expiry of the leaves for which the pod is stale.
func (c consumer) firstExpiry(by standard, p Pace) time.Time {
	var first time.Time
	for _, a := range c.answers {
		if by.state(a, c.endpoint.demanded[a.Port], c.paced(p)) == stateStale && (first.IsZero() || a.NotAfter.Before(first)) {
			first = a.NotAfter
		}
	}
	return first
}

// readsOtherFiles reports whether a pod with an older leaf reads it from other files than the
// Secret's volume, because those had the new leaf before the pod was created. A restart would not
// help. Something else writes the files of a static pod, at an unknown time.
func (c consumer) readsOtherFiles(by standard, p Pace) bool {
	if c.pod.Template.Value().Mirror() {
		return false
	}
	since, _ := by.overdue(c, p)
	return c.pod.CreationTimestamp.After(since)
}
