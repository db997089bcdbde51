package signer

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

const (
	// maxExternalChain is the most certificates after the leaf from which a chain is built, and the
	// most roots that are tried, of those that the chain names.
	maxExternalChain = 4
	// minExternalRSA is the least bits of an RSA key that OpenSSL's clients accept by default.
	minExternalRSA = 2048
)

// Trust is how clients can verify the chain of another issuer.
type Trust string

// The values of Trust, as conditions have them.
const (
	TrustOwnCA   Trust = "clients verify it with " + api.BundleKey + " of the Secret"
	TrustBundle  Trust = "clients verify it with the CA bundle of servingcert"
	TrustUnknown Trust = "it leads to no root in " + api.BundleKey + " of the Secret or in the CA bundle of servingcert"
)

// usageOf returns why clients do not accept the leaf as a server's, or "".
func usageOf(leaf *x509.Certificate) string {
	const ofServers = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement
	key, isRSA := leaf.PublicKey.(*rsa.PublicKey)
	switch {
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth):
		return "its extended key usages do not include serverAuth" // OpenSSL's clients do not accept anyExtendedKeyUsage in its place
	case leaf.KeyUsage != 0 && leaf.KeyUsage&ofServers == 0:
		return "its key usages do not include digitalSignature"
	case isRSA && key.N.BitLen() < minExternalRSA:
		return fmt.Sprintf("its RSA key has %d bits: must have at least %d", key.N.BitLen(), minExternalRSA)
	}
	return ""
}

// trustOf returns what verifies the leaf at the given time, and when the first certificate of that
// chain expires. If nothing verifies it any more, it returns what did while the whole chain was valid.
// Of ownCA only roots count: OpenSSL's clients verify nothing with an intermediate alone.
func trustOf(leaf *x509.Certificate, chain []*x509.Certificate, ownCA []byte, bundle []*x509.Certificate, at time.Time) (Trust, time.Time) {
	own, _ := pki.ParseCertificates(pki.CertificateBlocks(ownCA)) // what cannot be read verifies nothing
	own = slices.DeleteFunc(own, func(c *x509.Certificate) bool { return !pki.SelfIssued(c) })
	at = pki.WithinValidity(leaf, at) // its expiry is reported by itself
	verifies := func(roots []*x509.Certificate, at time.Time) (until time.Time, ok bool) {
		roots = named(roots, append([]*x509.Certificate{leaf}, chain...))
		return pki.VerifiedUntil(leaf, chain, roots[:min(len(roots), maxExternalChain)], at)
	}
	for _, when := range slices.Compact([]time.Time{at, earliest(at, chain)}) { // each costs signatures
		if until, ok := verifies(own, when); ok {
			return TrustOwnCA, until
		}
		if until, ok := verifies(bundle, when); ok {
			return TrustBundle, until
		}
	}
	return TrustUnknown, leaf.NotAfter
}

// earliest returns at, or when the first certificate of the chain expired, if that was before.
func earliest(at time.Time, chain []*x509.Certificate) time.Time {
	for _, c := range chain {
		if c.NotAfter.Before(at) {
			at = c.NotAfter
		}
	}
	return at
}

// named returns the roots that the chain names as an issuer, or holds itself.
func named(roots, chain []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(roots), func(root *x509.Certificate) bool {
		return !slices.ContainsFunc(chain, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawIssuer, root.RawSubject) || c.Equal(root)
		})
	})
}
