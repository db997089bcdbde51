package status

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Roots are what clients may trust.
type Roots struct {
	Bundle *x509.CertPool // of the cluster; nil if there is none
	// Unread: the bundle may not be read, so clients may trust more.
	Unread bool
	Public *x509.CertPool // of this machine; nil if there are none
}

// MountedSecret is a Secret that a pod mounts.
type MountedSecret struct {
	Leaves []*x509.Certificate // that may be served from it
	CA     *x509.CertPool      // of its ca.crt; nil if it has none
	// Forbidden: this user may not read it, so it may have a CA.
	Forbidden bool
	// Read: Leaves are all. Not so if it is forbidden, missing or damaged, or has a keystore.
	Read bool
}

// ServedPort is what a port served.
type ServedPort struct {
	PodPort
	Serves probe.Kind `json:"serves"`
	Cause  string     `json:"cause,omitempty"` // why it is not tls
	// The rest is of a port that serves TLS.
	Leaf     string                `json:"leaf,omitempty"` // SHA-256 of its DER
	Issuer   string                `json:"issuer,omitempty"`
	Names    []string              `json:"names,omitempty"`
	NotAfter *time.Time            `json:"notAfter,omitempty"`
	TLS      *probe.HandshakeNames `json:"tls,omitempty"`
	// Usage is why clients refuse the leaf's usages or its key.
	Usage string `json:"usage,omitempty"`
	// NotNamed are the Services whose names the leaf does not have.
	NotNamed []string `json:"notNamed,omitempty"`
	// Secret is the mounted Secret that holds the leaf. Without one it is empty, and SecretState is
	// not current.
	Secret      string `json:"secret,omitempty"`
	SecretState string `json:"secretState"`
	// Trust is what verifies the chain.
	Trust string `json:"trust,omitempty"`
	// Strangers is refused or admitted, if one of the Services lists its clients, and empty if neither was seen.
	Strangers probe.Judgement `json:"strangers,omitempty"`
	Problems  []string        `json:"problems,omitempty"`
}

// The values of ServedPort.SecretState.
const (
	NoSecret        = "none"    // the pod mounts no Secret with a certificate
	InSecret        = "current" // Secret holds the leaf
	OlderThanSecret = "older"   // Secret holds a newer certificate of the same issuer for the same names
	NotInSecret     = "other"   // no mounted Secret holds it
	SecretUnread    = "unread"  // one that is mounted has no certificate that this user can read
)

// The values of ServedPort.Trust.
const (
	TrustSecret  = "secret"  // ca.crt of the mounted Secret
	TrustCluster = "cluster" // the CA bundle of servingcert
	TrustPublic  = "public"  // the public roots of this machine
	TrustNone    = "none"    // none of these
	TrustUnknown = "unknown" // none of those that this user may read
)

// Served returns what the port served. secrets are those that the pod mounts, by name.
func (p PodPort) Served(outcome probe.Outcome, secrets map[string]MountedSecret, roots Roots, now time.Time) ServedPort {
	s := ServedPort{PodPort: p, Serves: outcome.Kind, SecretState: NoSecret}
	switch outcome.Kind {
	case probe.TLS:
	case probe.Plaintext:
		s.Problems = []string{ProblemPlaintext}
		return s
	default:
		s.Cause, s.Problems = string(outcome.Cause), []string{ProblemUnreachable}
		if outcome.Cause == probe.CauseOther && outcome.Err != nil {
			s.Cause = api.Escape(api.Shorten(outcome.Err.Error(), maxCause))
		}
		return s
	}
	leaf, names := outcome.Chain[0], outcome.Handshake.Names()
	s.Leaf, s.Issuer, s.NotAfter, s.TLS = pki.Fingerprint(leaf), issuerOf(leaf), &leaf.NotAfter, &names
	for _, name := range leaf.DNSNames[:min(len(leaf.DNSNames), maxNamed)] {
		s.Names = append(s.Names, api.Escape(name))
	}
	s.Secret, s.SecretState = p.holder(leaf, secrets)
	var valid pki.Period
	s.Trust, valid = trustOf(outcome.Chain, p.pools(secrets), roots, now)
	if s.Trust == TrustNone && (roots.Unread || p.mayHaveCA(secrets)) {
		s.Trust = TrustUnknown
	}
	s.Usage, s.NotNamed = pki.UsageDefect(leaf), p.notNamed(leaf)
	s.Problems = p.problems(s, leaf, secrets[s.Secret].CA != nil, valid, now)
	return s
}

// Tried adds what the port did to clients that no list names.
func (s *ServedPort) Tried(g *probe.Guarding) {
	switch s.Strangers = g.Judgement; s.Strangers {
	case probe.Refused:
	case probe.Admitted:
		s.Problems = append(s.Problems, ProblemStrangers)
	default:
		s.Problems = append(s.Problems, ProblemUnguarded)
	}
}

func issuerOf(leaf *x509.Certificate) string {
	return api.Escape(api.Shorten(cmp.Or(leaf.Issuer.CommonName, leaf.Issuer.String()), maxIssuer))
}

// maxCause is the most characters of an error.
const maxCause = 100

// maxIssuer is the most characters of an issuer's name.
const maxIssuer = 64

// holder returns the mounted Secret that holds the leaf, or a newer one in its place. A Secret that was not read may hold
// the leaf, unless another one holds a certificate for the same names.
func (p PodPort) holder(leaf *x509.Certificate, secrets map[string]MountedSecret) (name, state string) {
	for _, name := range p.secrets {
		if slices.ContainsFunc(secrets[name].Leaves, leaf.Equal) {
			return name, InSecret
		}
	}
	var others, same, unread bool
	for _, name := range p.secrets {
		unread = unread || !secrets[name].Read
		for _, have := range secrets[name].Leaves {
			others = true
			if !sameNames(have, leaf) {
				continue
			}
			if same = true; leaf.NotBefore.Before(have.NotBefore) {
				return name, OlderThanSecret
			}
		}
	}
	switch {
	case unread && !same:
		return "", SecretUnread
	case others:
		return "", NotInSecret
	}
	return "", NoSecret
}

// sameNames reports whether one certificate may have replaced the other. Issuers change with their CA.
func sameNames(a, b *x509.Certificate) bool {
	return slices.ContainsFunc(a.DNSNames, func(name string) bool { return slices.Contains(b.DNSNames, name) }) ||
		len(a.DNSNames)+len(b.DNSNames) == 0 && a.Subject.String() == b.Subject.String()
}

// pools returns the CAs of the mounted Secrets.
func (p PodPort) pools(secrets map[string]MountedSecret) (pools []*x509.CertPool) {
	for _, name := range p.secrets {
		if ca := secrets[name].CA; ca != nil {
			pools = append(pools, ca)
		}
	}
	return pools
}

// mayHaveCA reports whether a mounted Secret may not be read.
func (p PodPort) mayHaveCA(secrets map[string]MountedSecret) bool {
	return slices.ContainsFunc(p.secrets, func(name string) bool { return secrets[name].Forbidden })
}

// maxIntermediates is the most certificates after the leaf from which a chain is built.
const maxIntermediates = 10

// trustOf returns what verifies the chain, and when clients accept it (pki.VerifiedBy).
func trustOf(chain []*x509.Certificate, own []*x509.CertPool, roots Roots, now time.Time) (string, pki.Period) {
	sets := append(slices.Clone(own), roots.Bundle, roots.Public)
	v, _ := pki.VerifiedBy(sets, chain[0], chain[1:min(len(chain), maxIntermediates+1)], now)
	switch {
	case v.Set < 0:
		return TrustNone, v.Period
	case v.Set < len(own):
		return TrustSecret, v.Period
	case v.Set == len(own):
		return TrustCluster, v.Period
	}
	return TrustPublic, v.Period
}

// PortReport is what the ports of ready pods served, and how much was not looked at.
type PortReport struct {
	Ports []ServedPort `json:"ports"`
	Unseen
}

// Fails reports whether one of the problems was found.
func (r PortReport) Fails(problems []string) bool {
	return r.PodsNotReady > 0 && slices.Contains(problems, ProblemNotReady) ||
		slices.ContainsFunc(r.Ports, func(s ServedPort) bool { return s.Has(problems) })
}

// Has reports whether the port has one of the problems.
func (s ServedPort) Has(problems []string) bool {
	return slices.ContainsFunc(s.Problems, func(p string) bool { return slices.Contains(problems, p) })
}

// PortGroup are ports of a workload's pods that serve the same.
type PortGroup struct {
	ServedPort
	Pods int
}

// GroupPorts returns one group for the pods of a workload that serve the same at a port.
func GroupPorts(served []ServedPort) []PortGroup {
	var groups []PortGroup
	index := map[string]int{}
	for _, s := range served {
		key := fmt.Sprintln(s.Namespace, s.Workload, s.Port, s.Serves, s.Cause, s.Leaf, s.Secret, s.SecretState, s.Trust, s.TLS != nil && s.TLS.Version == "TLS 1.3", strings.Join(s.Problems, ","))
		i, known := index[key]
		if !known {
			i = len(groups)
			index[key] = i
			groups = append(groups, PortGroup{ServedPort: s})
		}
		groups[i].Pods++
	}
	return groups
}
