package signer

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// maxExternalChain is the most certificates after the leaf from which a chain is built, and the
// most roots that are tried, of those that the chain names.
const maxExternalChain = 4

// Trust is how clients can verify the chain of another issuer.
type Trust string

// The values of Trust, as conditions have them.
const (
	TrustOwnCA   Trust = "clients verify it with " + api.BundleKey + " of the Secret"
	TrustBundle  Trust = "clients verify it with the CA bundle of servingcert"
	TrustUnknown Trust = "neither " + api.BundleKey + " of the Secret nor the CA bundle of servingcert verifies it"
)

// verdict is whether clients can verify a chain.
type verdict struct {
	Trust Trust
	// Cause is why, if Trust is TrustUnknown.
	Cause string
	// Unverified: so, and the Secret has ca.crt.
	Unverified bool
	// NotBefore and NotAfter are when all certificates of the chain that clients verify are valid, with the
	// leaf. RootEnds: at NotAfter the root in ca.crt expires. RootBegins: at NotBefore it becomes valid.
	NotBefore, NotAfter  time.Time
	RootBegins, RootEnds bool
	// Paths are what a server has to send with the leaf (pki.Verified).
	Paths []string
}

// trustOf returns the verdict about the leaf at the given time (pki.VerifiedBy). Of ownCA only roots count:
// OpenSSL's clients verify nothing with an intermediate alone.
func trustOf(leaf *x509.Certificate, chain []*x509.Certificate, ownCA []byte, bundle []*x509.Certificate, at time.Time) verdict {
	sent := append([]*x509.Certificate{leaf}, chain...)
	inCA, _ := pki.ParseCertificates(pki.CertificateBlocks(ownCA)) // what cannot be read verifies nothing
	own := named(slices.DeleteFunc(slices.Clone(inCA), func(c *x509.Certificate) bool { return !pki.SelfIssued(c) }), sent)
	by, err := pki.VerifiedBy([]*x509.CertPool{pki.PoolOf(own), pki.PoolOf(named(bundle, sent))}, leaf, chain, at)
	v := verdict{Trust: TrustUnknown, NotBefore: by.From, NotAfter: by.Until, Paths: by.Paths}
	if by.Set == 1 {
		v.Trust = TrustBundle
		return v
	}
	v.RootEnds = v.NotAfter.Before(leaf.NotAfter) && slices.ContainsFunc(own, func(root *x509.Certificate) bool { return root.NotAfter.Equal(v.NotAfter) })
	v.RootBegins = v.NotBefore.After(leaf.NotBefore) && slices.ContainsFunc(own, func(root *x509.Certificate) bool { return root.NotBefore.Equal(v.NotBefore) })
	switch {
	case by.Set == 0:
		v.Trust = TrustOwnCA
	case !v.RootEnds && !v.RootBegins:
		v.Cause, v.Unverified = causeOf(sent, inCA, own, err), len(ownCA) > 0
	}
	return v
}

// named returns the first roots that the chain names as an issuer, or holds itself.
func named(roots, chain []*x509.Certificate) []*x509.Certificate {
	roots = slices.DeleteFunc(slices.Clone(roots), func(root *x509.Certificate) bool {
		return !slices.ContainsFunc(chain, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawIssuer, root.RawSubject) || c.Equal(root)
		})
	})
	return roots[:min(len(roots), maxExternalChain)]
}
