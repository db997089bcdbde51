package kubelets

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// State is what a kubelet serves. It is a label of servingcert_kubelets, and so one of few.
type State string

// The states.
const (
	Current     State = "current"      // the certificate that it was issued, or one of its own while that is not known
	Other       State = "other"        // another one than it was issued last
	Late        State = "late"         // one that it should have renewed
	Expired     State = "expired"      // one that is not valid now
	NotIssued   State = "not_issued"   // a self-signed one, or one that is not a node's
	WrongName   State = "wrong_name"   // one that is not for the address at which clients find it
	Unreachable State = "unreachable"  // none
	NotDialled  State = "not_verified" // the address is not one that nodes may have
)

const (
	// Grace is how long after a certificate was issued the kubelet may serve the one before.
	Grace = 2 * time.Minute
	// lateAfter is the part of a lifetime, in percent, after which a certificate has been renewed:
	// kubelets begin at 70 to 90.
	lateAfter = 95
)

// Given is what a node was issued last, as far as this process has seen it. Kubernetes deletes a request an
// hour after its answer.
type Given struct {
	Leaf string // fingerprint; "" if it is not known
	// Created is when it was asked for, and Seen when this process saw it first.
	Created, Seen time.Time
}

// After returns what was issued last of the two.
func (g Given) After(i *Issued, now time.Time) Given {
	if i.Leaf == "" || i.Leaf == g.Leaf || i.CreationTimestamp.Time.Before(g.Created) {
		return g
	}
	return Given{Leaf: i.Leaf, Created: i.CreationTimestamp.Time, Seen: now}
}

// Situation is what a State is judged by.
type Situation struct {
	Now  time.Time
	Node string
	// Address is where its kubelet was dialled; Refused is why it was not.
	Address netip.Addr
	Refused probe.Cause
	Outcome probe.Outcome
	Given   Given
}

// Address returns the first address of the node that may be dialled, or its first and why it may not.
func (n *Node) Address(permitted probe.Addresses) (first netip.Addr, refused probe.Cause) {
	for i, address := range n.Addresses {
		cause := permitted.Refuse(probe.Visit{Address: address})
		if cause == "" {
			return address, ""
		}
		if i == 0 {
			first, refused = address, cause
		}
	}
	if len(n.Addresses) == 0 {
		refused = probe.CauseUnspecified
	}
	return first, refused
}

// Judge returns the state, and for all but Current a sentence that says why.
func Judge(s Situation) (State, string) {
	at := netip.AddrPortFrom(s.Address, Port)
	switch {
	case s.Refused == probe.CauseOutside:
		return NotDialled, fmt.Sprintf("its address %s is in none of --node-cidrs", s.Address)
	case s.Refused != "":
		return NotDialled, "it is not dialled: " + s.Refused.Why(starttls.TLS)
	case s.Outcome.Kind == probe.Plaintext:
		return Unreachable, fmt.Sprintf("%s does not answer with TLS", at)
	case s.Outcome.Kind != probe.TLS:
		return Unreachable, fmt.Sprintf("%s serves no certificate: %s", at, s.Outcome.Cause)
	}
	return s.judge(s.Outcome.Chain[0])
}

func (s Situation) judge(leaf *x509.Certificate) (State, string) {
	shown := fmt.Sprintf("it serves certificate sha256:%.8s, valid until %s", pki.Fingerprint(leaf), leaf.NotAfter.UTC().Format(time.RFC3339))
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	switch {
	case s.Now.Before(leaf.NotBefore) || s.Now.After(leaf.NotAfter):
		return Expired, shown + ", which is not valid now"
	case leaf.Subject.CommonName != nodeUser+s.Node || leaf.Subject.String() == leaf.Issuer.String():
		return NotIssued, shown + ", which was not issued to the node: is serverTLSBootstrap on, and was its request approved?"
	case leaf.VerifyHostname(s.Address.String()) != nil:
		return WrongName, fmt.Sprintf("%s, which is not for its address %s", shown, s.Address)
	case s.Given.Leaf != "" && s.Given.Leaf != pki.Fingerprint(leaf) && !s.Now.Before(s.Given.Seen.Add(Grace)):
		return Other, fmt.Sprintf("%s, and was issued sha256:%.8s: restart the kubelet", shown, s.Given.Leaf)
	case s.Now.Sub(leaf.NotBefore) > life/100*lateAfter:
		return Late, shown + ", which it should have renewed: look at its requests and its log"
	}
	return Current, ""
}
