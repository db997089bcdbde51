package remote

import (
	"bytes"
	"crypto/x509"
	"time"

	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// Anchor returns the root that clients must trust for leaves that issuer signs, and the chain
// to serve after them: issuer and the certificates between it and the root, without the root.
// The candidates are the given certificates. If there are none, issuer must be a root itself,
// and missing completes the error otherwise. Errors have ReasonCAUntrusted.
func Anchor(issuer *x509.Certificate, given []*x509.Certificate, missing string, now time.Time) (chain []*x509.Certificate, root *x509.Certificate, err error) {
	if !issuer.IsCA || issuer.KeyUsage != 0 && issuer.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, nil, NewError(issue.ReasonCAUntrusted, "the CA's certificate, %q, is not a CA certificate", issuer.Subject)
	}
	if len(given) == 0 {
		if !SelfSigned(issuer) {
			return nil, nil, NewError(issue.ReasonCAUntrusted, "the CA's certificate, %q, is not a root: %s", issuer.Subject, missing)
		}
		given = []*x509.Certificate{issuer}
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range given {
		if SelfSigned(c) {
			roots.AddCert(c)
		} else {
			between.AddCert(c)
		}
	}
	paths, verifyErr := issuer.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if verifyErr != nil {
		return nil, nil, NewError(issue.ReasonCAUntrusted, "the CA's certificate, %q, does not chain to a trusted root: %s", issuer.Subject, Cause(verifyErr))
	}
	var best []*x509.Certificate
	for _, path := range paths {
		if allowsLeaves(path) && (best == nil || len(path) < len(best)) {
			best = path
		}
	}
	if best == nil {
		return nil, nil, NewError(issue.ReasonCAUntrusted, "the CA's certificate, %q, exceeds the path length that a CA above it allows", issuer.Subject)
	}
	end := len(best) - 1
	return best[:end:end], best[end], nil
}

// allowsLeaves reports whether the path length constraints in a path from an issuer to a root
// permit leaves below the issuer. Verify has checked them as if the issuer were the leaf.
func allowsLeaves(path []*x509.Certificate) bool {
	for below, c := range path {
		if limited := c.MaxPathLen > 0 || c.MaxPathLenZero; limited && below > c.MaxPathLen {
			return false
		}
	}
	return true
}

// SelfSigned reports whether the certificate is a root: signed with its own key.
func SelfSigned(c *x509.Certificate) bool {
	return bytes.Equal(c.RawSubject, c.RawIssuer) && c.CheckSignatureFrom(c) == nil
}
