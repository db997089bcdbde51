package probe

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// maxChain is the maximum number of certificates beside the leaf from which a chain is built, as for other issuers in
// package signer. The signer's chains begin with the intermediates of the issuing CA, at most two, and its root is in the
// bundle. What follows leads to older roots.
const maxChain = 4

// recognise reports whether the leaf was issued for a Service of one of these names: by a CA of the
// bundle, at any time, or by a CA whose name has the form of servingcert's. The latter covers CAs
// that were distrusted or retired, which are in no bundle. The names exclude leaves of other
// Services.
//
// So whoever controls the certificate of a pod can make it look like an older one of the Secret.
// The only consequence is that this pod is stale, and restarted if it requests that itself.
//
// A leaf that exceeds the signer's limits is not ours. The server chooses the chain, so it is cut off after maxChain, and
// all roots are tried at once: this verifies at most 200 signatures.
func recognise(leaf *x509.Certificate, chain []*x509.Certificate, bundle pki.Bundle, names []string) bool {
	if len(leaf.Raw) > pki.MaxCertificate || len(leaf.DNSNames) > api.MaxNames || len(leaf.IPAddresses) > api.MaxNames {
		return false
	}
	chain = chain[:min(len(chain), maxChain)]
	if !slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) == nil }) {
		return false
	}
	if _, ours := pki.OwnGeneration(leaf.Issuer.CommonName); ours {
		return true
	}
	for _, at := range []time.Time{leaf.NotAfter, leaf.NotBefore} {
		if _, err := pki.VerifiedUntil(leaf, chain, bundle.Certificates(), at); err == nil {
			return true
		}
	}
	return false
}
