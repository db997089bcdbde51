package status

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// checkUnverified checks what a client rejects with any bundle, since the bundle may not be read.
func checkUnverified(name string, s VerifySituation, leaf *x509.Certificate, now time.Time) Finding {
	err := leaf.VerifyHostname(s.Host)
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		err = fmt.Errorf("it is valid from %s until %s", leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return Finding{VerdictFailed, fmt.Sprintf("%s: a client rejects it as %s: %v", name, s.Host, err)}
	}
	return Finding{VerdictUnknown, fmt.Sprintf("%s: it is unknown whether clients trust it, because ConfigMap %s may not be read", name, s.TrustName)}
}

// checkForeign checks the certificate of another issuer. Condition Ready reports whether it has the names
// that clients use.
func checkForeign(name string, s VerifySituation, certs []*x509.Certificate, bundle pki.Bundle, now time.Time) Finding {
	leaf, roots := certs[0], Roots{Public: s.Public}
	if len(bundle.Certificates()) > 0 {
		roots.Bundle = pki.PoolOf(bundle.Certificates())
	}
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	trust, valid := trustOf(certs, []*x509.CertPool{s.SecretCA}, roots, now)
	switch {
	case !now.Before(leaf.NotAfter):
		return Finding{VerdictFailed, fmt.Sprintf("%s: expired at %s: its issuer has to renew it", name, until)}
	case !now.Before(valid.Until):
		return Finding{VerdictFailed, fmt.Sprintf("%s: a certificate of its chain expired at %s: its issuer has to renew it", name, valid.Until.UTC().Format(time.RFC3339))}
	case now.Before(valid.From):
		return Finding{VerdictFailed, fmt.Sprintf("%s: it, or a certificate of its chain, is not valid before %s", name, valid.From.UTC().Format(time.RFC3339))}
	case trust == TrustNone && s.BundleErr != nil:
		return Finding{VerdictUnknown, fmt.Sprintf("%s: it is unknown whether clients trust it, because ConfigMap %s may not be read", name, s.TrustName)}
	case trust == TrustNone && s.SecretErr != nil:
		return Finding{VerdictUnknown, fmt.Sprintf("%s: it is unknown whether clients trust it, because the Secret may not be read", name)}
	case trust == TrustNone && s.SecretCA != nil: // clients in the cluster get it
		return Finding{VerdictFailed, fmt.Sprintf("%s: no root in %s of the Secret, in the CA bundle or on this machine verifies it: a certificate of the chain is missing, or it is from another CA", name, api.BundleKey)}
	case trust == TrustNone: // its clients may have a root that nothing here has
		return Finding{VerdictUnknown, fmt.Sprintf("%s: the Secret has no root in %s, and no root in the CA bundle or on this machine verifies it: only clients that have its root accept it", name, api.BundleKey)}
	default:
		return Finding{VerdictOK, fmt.Sprintf("%s: of another issuer, for %s until %s; roots that verify it: %s", name, strings.Join(leaf.DNSNames, ", "), until, trust)}
	}
}

// verifies returns an error if a client with the bundle does not accept the certificates
// for the host and for the names in them.
func verifies(certs []*x509.Certificate, host string, bundle pki.Bundle, now time.Time) error {
	if len(bundle.Certificates()) == 0 {
		return errors.New("there is no bundle to verify it with")
	}
	roots, intermediates := pki.PoolOf(bundle.Certificates()), pki.PoolOf(certs[1:])
	for _, name := range append([]string{host}, certs[0].DNSNames...) {
		// test a wildcard with a name that it matches
		name = strings.Replace(name, "*.", "pod-0.", 1)
		if _, err := certs[0].Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: intermediates, CurrentTime: now, DNSName: name,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}); err != nil {
			return fmt.Errorf("a client rejects it as %s: %w", name, err)
		}
	}
	if i := slices.IndexFunc(certs[1:], pki.SelfIssued); i >= 0 {
		return fmt.Errorf("certificate %d of the chain is a root: OpenSSL and curl may reject it", i+2)
	}
	return nil
}
