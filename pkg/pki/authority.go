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

// Authority is a CA at one moment: everything that signing a leaf and checking
// one takes. It is immutable; a changed CA is a new Authority.
type Authority struct {
	Issuer               // signs now
	Key    crypto.Signer // the Issuer's; nil if the CA is remote and signs itself
	// Older are issuers that signed before: a leaf of theirs is good until it is
	// replaced, at its time in Reissue.
	Older []Issuer
	// Reissue is when the leaves of Older are replaced. Zero: at once.
	Reissue Window
	// Bundle holds every root that a client may hold: of the issuers, and of one
	// that does not sign yet.
	Bundle Bundle
	// Anchors are those roots of the Bundle each of which alone, with the Chain,
	// verifies what the Issuer signs. Never empty.
	Anchors []*x509.Certificate
	// FormerDomains are cluster domains of before: as long as a client may hold a
	// root that permits no other, a leaf carries the names in them as well.
	FormerDomains []string
	// MaxLeaf is the longest life of a leaf; zero: what it is asked for.
	MaxLeaf time.Duration
	// SignUntil is the latest NotAfter that a leaf may have: the CA's promise,
	// written down before it is used, of when it is last needed.
	SignUntil time.Time
}

// Issuer is a CA certificate and what is served after the leaves that its key
// signed.
type Issuer struct {
	Certificate *x509.Certificate
	// Chain never holds a self-signed root.
	Chain []*x509.Certificate
	// Ending is the rest of the chain that was served until its certificates came
	// close to their end. A leaf followed by Chain and any first part of Ending is
	// good until its time in Shorten.
	Ending  []*x509.Certificate
	Shorten Window
}

// Permits reports whether every client accepts a leaf with the name: whether the
// name constraints of the Anchors, of the Issuer and of all between permit it. A
// constraint judges all names of a leaf, so that one name that is not permitted
// spoils the others.
func (a *Authority) Permits(dnsName string) bool {
	return !slices.ContainsFunc(a.constrained(), func(c *x509.Certificate) bool { return !PermitsDNS(c, dnsName) })
}

// PermitsAddr is Permits for an IP address as a name.
func (a *Authority) PermitsAddr(ip netip.Addr) bool {
	return !slices.ContainsFunc(a.constrained(), func(c *x509.Certificate) bool { return !PermitsIP(c, ip) })
}

// MaySign returns why the CA does not sign a leaf that ends at the time, or nil.
func (a *Authority) MaySign(notAfter time.Time) error {
	if notAfter.After(a.SignUntil) {
		return fmt.Errorf("the CA signs nothing that expires after %s, and the certificate would expire later", a.SignUntil.Format(time.RFC3339))
	}
	return nil
}

func (a *Authority) constrained() []*x509.Certificate {
	return slices.Concat([]*x509.Certificate{a.Certificate}, a.Anchors, a.Chain)
}

// Window is a time that work is spread over.
type Window struct{ From, Until time.Time }

// At returns the certificate's moment in the window: a pure function of its
// bytes, independent of RenewAt, so that many certificates are spread evenly.
func (w Window) At(cert []byte) time.Time { return w.AtOf(sha256.Sum256(cert)) }

// AtOf is At for a certificate of which the SHA-256 of its bytes is known.
func (w Window) AtOf(sum [sha256.Size]byte) time.Time {
	u := float64(binary.BigEndian.Uint64(sum[8:16])>>11) / (1 << 53)
	return w.From.Add(time.Duration(u * float64(max(0, w.Until.Sub(w.From)))))
}
