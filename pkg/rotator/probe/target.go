package probe

import (
	"net/netip"
	"slices"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// Target is a pod to dial for a Secret, or for its own key.
type Target struct {
	Key
	Address netip.Addr
	// HostNetwork: the pod uses its node's network. OnNode: Address is a node address in the pod's
	// status.
	HostNetwork, OnNode bool

	Ports []uint16 // in the order of the dials
	// Protocols are the STARTTLS protocols of the ports.
	Protocols map[uint16]starttls.Protocol
	// Partial: ports are left out because the pod is unresponsive.
	Partial bool
	Name    string   // server name to request (SNI)
	Names   []string // a leaf of the Secret has one of them
	// Leaves are the fingerprints of the known leaves, current and former, of the Secret.
	Leaves []string
	// PodKey has the requirements for the pod's own key, if it has one.
	PodKey *PodKeyRequirements
	// Proxied are the ports of a proxy that reads which clients it admits, and Guards those of them at which strangers try.
	Proxied map[uint16]string
	Guards  map[uint16]Guard
}

// Key identifies a Target.
type Key struct {
	Of  pods.NamespacedKey // the key of the certificate that the pod should serve
	Pod types.UID
}

// Unverified returns an answer for each port of a pod that is not dialled, with the cause.
func (v Target) Unverified(at time.Time, cause Cause) []Answer {
	answers := make([]Answer, 0, len(v.Ports))
	for _, port := range v.Ports {
		answers = append(answers, v.UnverifiedAt(port, at, cause))
	}
	return answers
}

// UnverifiedAt is Unverified for one port.
func (v Target) UnverifiedAt(port uint16, at time.Time, cause Cause) Answer {
	return Answer{Port: port, Protocol: v.Protocols[port], Kind: NotVerified, Cause: cause, At: at, Guarding: v.untried(port, at, cause)}
}

// Answer returns the answer of a port, from the outcome of a dial that began at the given time.
func (v Target) Answer(port uint16, at time.Time, outcome Outcome, trust Trust) Answer {
	a := Answer{Port: port, Protocol: v.Protocols[port], Kind: outcome.Kind, Cause: outcome.Cause, At: at}
	if outcome.Kind == TLS {
		leaf := outcome.Chain[0]
		a.Handshake = outcome.Handshake
		a.Leaf, a.NotBefore, a.NotAfter, a.RenewAt = pki.Fingerprint(leaf), leaf.NotBefore, leaf.NotAfter, pki.RenewAt(leaf)
		i := slices.Index(v.Leaves, a.Leaf)
		if i >= 0 {
			a.Leaf = v.Leaves[i] // one copy for all pods of the Secret
			a.Links = unique.Make(pki.Links(outcome.Chain[1:], at)).Value()
		}
		a.Ours = i >= 0 || recognise(leaf, outcome.Chain[1:], trust.Bundle, v.Names)
		if v.PodKey != nil {
			a.PodKey = v.PodKey.check(port, leaf, outcome.Chain[1:], trust, at)
			a.Ours = a.Ours || a.PodKey.Demanded.Other && a.PodKey.Lacks == ""
		}
	}
	return a
}
