package probe

import (
	"crypto/x509"
	"regexp"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// ourCA matches the common name of a CA that servingcert made, with its generation.
var ourCA = regexp.MustCompile(`^servingcert CA ([0-9]+) [0-9a-f]{8}$`)

// maxChain is how many certificates beside the leaf a chain is looked for in. The
// chains that are issued have one or two, and in a succession of the CA one more for each
// root that clients may still know.
const maxChain = 10

// recognise reports whether the leaf was issued for a Service of one of these
// names: by a CA of the bundle, whenever that was, or by a CA that has a name as
// servingcert's CAs have. The latter is for a CA that was distrusted or has
// retired, which is in no bundle any more. The names exclude leaves of other
// Services.
//
// Whoever can make a pod serve a certificate can thus have it taken for an older
// one of the Secret. All that follows is that this pod is taken for stale, and
// restarted if it asks for that itself.
//
// What exceeds the limits of what the signer issues is not ours. Of a chain that is longer
// than maxChain, the rest is passed over.
func recognise(leaf *x509.Certificate, chain []*x509.Certificate, bundle pki.Bundle, names []string) bool {
	if len(leaf.Raw) > pki.MaxCertificate || len(leaf.DNSNames) > api.MaxNames || len(leaf.IPAddresses) > api.MaxNames {
		return false
	}
	chain = chain[:min(len(chain), maxChain)]
	if !slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) == nil }) {
		return false
	}
	if ourCA.MatchString(leaf.Issuer.CommonName) {
		return true
	}
	for _, root := range bundle.Certificates() {
		for _, at := range []time.Time{leaf.NotAfter, leaf.NotBefore} {
			if pki.VerifyServing(leaf, chain, root, at) == nil {
				return true
			}
		}
	}
	return false
}
