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
	TrustUnknown Trust = "it leads to no root in " + api.BundleKey + " of the Secret or in the CA bundle of servingcert"
)

// trustOf returns what verifies the leaf at the given time, and when that chain is valid (pki.VerifiedBy).
// Of ownCA only roots count: OpenSSL's clients verify nothing with an intermediate alone.
func trustOf(leaf *x509.Certificate, chain []*x509.Certificate, ownCA []byte, bundle []*x509.Certificate, at time.Time) (Trust, pki.Period) {
	own, _ := pki.ParseCertificates(pki.CertificateBlocks(ownCA)) // what cannot be read verifies nothing
	own = slices.DeleteFunc(own, func(c *x509.Certificate) bool { return !pki.SelfIssued(c) })
	poolOf := func(roots []*x509.Certificate) *x509.CertPool {
		pool := x509.NewCertPool()
		roots = named(roots, append([]*x509.Certificate{leaf}, chain...))
		for _, root := range roots[:min(len(roots), maxExternalChain)] {
			pool.AddCert(root)
		}
		return pool
	}
	set, period := pki.VerifiedBy([]*x509.CertPool{poolOf(own), poolOf(bundle)}, leaf, chain, at)
	switch set {
	case 0:
		return TrustOwnCA, period
	case 1:
		return TrustBundle, period
	}
	return TrustUnknown, period
}

// named returns the roots that the chain names as an issuer, or holds itself.
func named(roots, chain []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(roots), func(root *x509.Certificate) bool {
		return !slices.ContainsFunc(chain, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawIssuer, root.RawSubject) || c.Equal(root)
		})
	})
}
