package pki

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Authority is a CA at one moment, with everything needed to sign and check leaves.
// It is immutable; a changed CA is a new Authority.
type Authority struct {
	Issuer               // signs now
	Key    crypto.Signer // of the Issuer; nil if the CA is remote and signs itself
	// Older are issuers that signed before. Their leaves stay valid until they are
	// replaced during Reissue.
	Older []Issuer
	// Reissue is when the leaves of Older are replaced. Zero: at once.
	Reissue Window
	// Bundle holds every root that a client may hold: those of the issuers, and of a
	// new generation that does not sign yet.
	Bundle Bundle
	// Anchors are the roots of the Bundle that each verify, alone and with the Chain,
	// what the Issuer signs. Never empty.
	Anchors []*x509.Certificate
	// FormerDomains are earlier cluster domains: while a client may hold a root that
	// permits only these, a leaf also has the names in them.
	FormerDomains []string
	// MaxLeaf is the longest lifetime of a leaf; zero for the requested one.
	MaxLeaf time.Duration
	// SignUntil is the latest NotAfter that a leaf may have. It is stored before it is
	// used, so that the time when the CA is last needed is certain.
	SignUntil time.Time
}

// Issuer is a CA certificate and the chain that is served after its leaves.
type Issuer struct {
	Certificate *x509.Certificate
	// Chain never holds a self-signed root.
	Chain []*x509.Certificate
	// Ending is the rest of the chain that was served until its certificates were about
	// to expire. A leaf followed by Chain and any first part of Ending is valid until its
	// time in Shorten.
	Ending  []*x509.Certificate
	Shorten Window
}

// Permits reports whether every client accepts a leaf with the name: whether the name
// constraints of the Anchors, of the Issuer and of all between permit it. Constraints
// apply to all names of a leaf: one name that is not permitted makes it invalid.
func (a *Authority) Permits(dnsName string) bool {
	return !slices.ContainsFunc(a.constrained(), func(c *x509.Certificate) bool { return !PermitsDNS(c, dnsName) })
}

// PermitsAddr is Permits for an IP address as a name.
func (a *Authority) PermitsAddr(ip netip.Addr) bool {
	return !slices.ContainsFunc(a.constrained(), func(c *x509.Certificate) bool { return !PermitsIP(c, ip) })
}

// MaySign returns an error if the CA does not sign a leaf with the NotAfter.
func (a *Authority) MaySign(notAfter time.Time) error {
	if notAfter.After(a.SignUntil) {
		return fmt.Errorf("the CA signs nothing that expires after %s, but the certificate would expire later", a.SignUntil.Format(time.RFC3339))
	}
	return nil
}

func (a *Authority) constrained() []*x509.Certificate {
	return slices.Concat([]*x509.Certificate{a.Certificate}, a.Anchors, a.Chain)
}

// Window is a period over which work is spread.
type Window struct{ From, Until time.Time }

// At returns the certificate's time in the window: a pure function of its bytes,
// independent of RenewAt, so that many certificates are spread evenly.
func (w Window) At(cert []byte) time.Time { return w.AtOf(sha256.Sum256(cert)) }

// AtOf is At for a certificate with the given SHA-256.
func (w Window) AtOf(sum [sha256.Size]byte) time.Time {
	u := float64(binary.BigEndian.Uint64(sum[8:16])>>11) / (1 << 53)
	return w.From.Add(time.Duration(u * float64(max(0, w.Until.Sub(w.From)))))
}
