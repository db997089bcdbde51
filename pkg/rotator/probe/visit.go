package probe

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// Visit is a pod that is to be dialled for a Secret, or for the key that it has of its
// own.
type Visit struct {
	Key
	Address netip.Addr
	// HostNetwork: the pod has its node's addresses. OnNode: Address is one of those
	// that the pod's status names as its node's.
	HostNetwork, OnNode bool

	Ports []uint16 // in the order in which they are dialled
	// Protocols say what comes before TLS at those ports where something does.
	Protocols map[uint16]starttls.Protocol
	// Partial: ports are left out of Ports because the pod is silent (Silence).
	Partial bool
	Name    string   // to ask for (SNI)
	Names   []string // a leaf of the Secret has one of them
	// Leaves are the fingerprints of the leaves that the Secret holds or held, as
	// far as they are known.
	Leaves []string
	// PodKey: the pod has a key of its own, and this is asked of its certificate.
	PodKey *PodKeyQuestion
}

// Key identifies a Visit.
type Key struct {
	Of  pods.NamespacedKey // whose certificate the pod should serve
	Pod types.UID
}

// Unverified returns the answers of a pod that is not dialled for the cause: one for each
// port.
func (v Visit) Unverified(at time.Time, cause Cause) []Answer {
	answers := make([]Answer, 0, len(v.Ports))
	for _, port := range v.Ports {
		answers = append(answers, Answer{Port: port, Protocol: v.Protocols[port], Kind: NotVerified, Cause: cause, At: at})
	}
	return answers
}

// Answer returns what a port of the pod answered: outcome is that of a dial that
// began at the given time.
func (v Visit) Answer(port uint16, at time.Time, outcome Outcome, trust Trust) Answer {
	a := Answer{Port: port, Protocol: v.Protocols[port], Kind: outcome.Kind, Cause: outcome.Cause, At: at}
	if outcome.Kind == TLS {
		leaf := outcome.Chain[0]
		a.Handshake = outcome.Handshake
		a.Leaf, a.NotBefore, a.NotAfter, a.RenewAt = pki.Fingerprint(leaf), leaf.NotBefore, leaf.NotAfter, pki.RenewAt(leaf)
		i := slices.Index(v.Leaves, a.Leaf)
		if i >= 0 {
			a.Leaf = v.Leaves[i] // one copy for all pods of the Secret
		}
		a.Ours = i >= 0 || recognise(leaf, outcome.Chain[1:], trust.Bundle, v.Names)
		if v.PodKey != nil {
			a.PodKey = v.PodKey.judge(port, leaf, outcome.Chain[1:], trust, at)
		}
	}
	return a
}
