package cfssl

import (
	"bytes"
	"crypto/x509"
	"time"

	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// anchor finds the root that a client must trust for what issuer signs, and what
// is to be served after a leaf: issuer and whatever lies between it and the root,
// never the root. The candidates are the certificates that the operator gave; if
// there are none, issuer must be a root itself. Errors are of ReasonCAUntrusted.
func anchor(issuer *x509.Certificate, given []*x509.Certificate, now time.Time) (chain []*x509.Certificate, root *x509.Certificate, err error) {
	if !issuer.IsCA || issuer.KeyUsage != 0 && issuer.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, nil, remoteError(issue.ReasonCAUntrusted, "the CA's certificate, %q, is not a CA certificate", issuer.Subject)
	}
	if len(given) == 0 {
		if !selfSigned(issuer) {
			return nil, nil, remoteError(issue.ReasonCAUntrusted, "the CA's certificate, %q, is not a root: --cfssl-bundle must name a file with its root", issuer.Subject)
		}
		given = []*x509.Certificate{issuer}
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range given {
		if selfSigned(c) {
			roots.AddCert(c)
		} else {
			between.AddCert(c)
		}
	}
	paths, verifyErr := issuer.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if verifyErr != nil {
		return nil, nil, remoteError(issue.ReasonCAUntrusted, "the CA's certificate, %q, does not chain to a trusted root: %s", issuer.Subject, cause(verifyErr))
	}
	var best []*x509.Certificate
	for _, path := range paths {
		if allowsLeaves(path) && (best == nil || len(path) < len(best)) {
			best = path
		}
	}
	if best == nil {
		return nil, nil, remoteError(issue.ReasonCAUntrusted, "the CA's certificate, %q, exceeds the path length that a CA above it allows", issuer.Subject)
	}
	end := len(best) - 1
	return best[:end:end], best[end], nil
}

// allowsLeaves reports whether the path lengths in a path from an issuer to a
// root leave room for the issuer, which Verify took for the leaf.
func allowsLeaves(path []*x509.Certificate) bool {
	for below, c := range path {
		if limited := c.MaxPathLen > 0 || c.MaxPathLenZero; limited && below > c.MaxPathLen {
			return false
		}
	}
	return true
}

func selfSigned(c *x509.Certificate) bool {
	return bytes.Equal(c.RawSubject, c.RawIssuer) && c.CheckSignatureFrom(c) == nil
}
