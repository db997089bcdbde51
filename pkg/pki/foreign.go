package pki

import (
	"bytes"
	"cmp"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// What clients accept of certificates that another issuer made.

// minServerRSA is the least bits of an RSA key that OpenSSL's clients accept by default.
const minServerRSA = 2048

// UsageDefect returns why clients do not accept the leaf as a server's, or "".
func UsageDefect(leaf *x509.Certificate) string {
	const ofServers = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement
	key, isRSA := leaf.PublicKey.(*rsa.PublicKey)
	switch {
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth):
		return "its extended key usages do not include serverAuth" // OpenSSL's clients do not accept anyExtendedKeyUsage in its place
	case leaf.KeyUsage != 0 && leaf.KeyUsage&ofServers == 0:
		return "its key usages do not include digitalSignature"
	case isRSA && key.N.BitLen() < minServerRSA:
		return fmt.Sprintf("its RSA key has %d bits: must have at least %d", key.N.BitLen(), minServerRSA)
	}
	return ""
}

// RenewBy returns when an issuer should have renewed a certificate with the lifetime, if clients accept its chain
// until the given time: a tenth of the lifetime before it, and at least a day, or a quarter of the lifetime if that
// is shorter.
func RenewBy(lifetime time.Duration, until time.Time) time.Time {
	return until.Add(-max(lifetime/10, min(24*time.Hour, lifetime/4)))
}

// Period is when all certificates of a chain are valid. It is empty if Until is before From.
type Period struct{ From, Until time.Time }

// and returns the period without the time in which the certificate is not valid.
func (p Period) and(c *x509.Certificate) Period {
	if c.NotBefore.After(p.From) {
		p.From = c.NotBefore
	}
	if c.NotAfter.Before(p.Until) {
		p.Until = c.NotAfter
	}
	return p
}

// Verified is how clients verify a leaf.
type Verified struct {
	// Set is the index of the set of roots, or -1.
	Set int
	Period
	// Paths are the Links that a server has to send with the leaf now, those of one path (LinkedBy). Without a Set, these
	// are the issuers of the leaf in its chain. They are unknown while a certificate of the chain is not valid.
	Paths []string
}

// VerifiedBy returns the index of the first set of roots with which a client accepts leaf as a server's
// certificate, and the period in which it does; a nil set accepts nothing. Validity is judged at the given time, or
// the nearest in that of the leaf. If no set accepts the leaf then, that one counts which accepts it before a
// certificate of the chain expired, or once all are valid. Without such a set the index is -1, the period is that
// of the leaf, its issuer in the chain and a root that is not valid then, and err is why the first set does not accept
// the leaf. Each set and time costs the signatures of x509.Certificate.Verify.
func VerifiedBy(sets []*x509.CertPool, leaf *x509.Certificate, chain []*x509.Certificate, at time.Time) (v Verified, err error) {
	intermediates := PoolOf(chain)
	v = Verified{Set: -1}
	v.Period, v.Paths = issuedWithin(leaf, chain, at)
	for n, when := range timesToVerify(leaf, chain, at) {
		for i, roots := range sets {
			if roots == nil {
				continue
			}
			chains, failed := verify(leaf, intermediates, roots, x509.ExtKeyUsageServerAuth, when)
			if failed == nil {
				v = Verified{Set: i, Period: longest(chains)}
				if n == 0 {
					v.Paths = pathsOf(between(chains), at)
				}
				return v, nil
			}
			err = cmp.Or(err, failed)
			if root := invalidRoot(failed, chain, when); root != nil && n == 0 {
				v.Period = v.and(root)
			}
		}
	}
	return v, err
}

// invalidRoot returns the root that would verify the chain if it were valid at the given time, or nil. err is that
// of the verification.
func invalidRoot(err error, chain []*x509.Certificate, at time.Time) *x509.Certificate {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || !at.After(invalid.Cert.NotAfter) && !at.Before(invalid.Cert.NotBefore) || slices.ContainsFunc(chain, invalid.Cert.Equal) {
		return nil
	}
	return invalid.Cert
}

// timesToVerify returns the times for which VerifiedBy tries the sets, in order and each once.
func timesToVerify(leaf *x509.Certificate, chain []*x509.Certificate, at time.Time) []time.Time {
	at = WithinValidity(leaf, at)
	ends, begins := at, at
	for _, c := range chain {
		if c.NotAfter.Before(ends) {
			ends = c.NotAfter
		}
		if c.NotBefore.After(begins) {
			begins = c.NotBefore
		}
	}
	times := []time.Time{at}
	for _, t := range []time.Time{ends, begins} {
		if !t.Equal(at) {
			times = append(times, t)
		}
	}
	return times
}

// longest returns the period in which at least one of the chains is valid. All are valid at one time.
func longest(chains [][]*x509.Certificate) (longest Period) {
	for i, chain := range chains {
		p := periodOf(chain)
		if i == 0 || p.From.Before(longest.From) {
			longest.From = p.From
		}
		if p.Until.After(longest.Until) {
			longest.Until = p.Until
		}
	}
	return longest
}

// periodOf returns when all of the certificates are valid.
func periodOf(chain []*x509.Certificate) Period {
	p := Period{chain[0].NotBefore, chain[0].NotAfter}
	for _, c := range chain[1:] {
		p = p.and(c)
	}
	return p
}

// issuedWithin returns when the leaf and its issuer in the chain are valid: of several, one that is valid at the
// given time, or else the one that expires last; and the Links of all that are valid then. What is above the issuer
// does not count: clients may have a root in place of a cross certificate.
func issuedWithin(leaf *x509.Certificate, chain []*x509.Certificate, at time.Time) (Period, []string) {
	var issuer *x509.Certificate
	var valid [][]*x509.Certificate
	for _, c := range chain {
		switch {
		case SelfIssued(c) || !bytes.Equal(c.RawSubject, leaf.RawIssuer) || leaf.CheckSignatureFrom(c) != nil:
		case !at.Before(c.NotBefore) && !at.After(c.NotAfter):
			valid = append(valid, []*x509.Certificate{c})
		case issuer == nil || c.NotAfter.After(issuer.NotAfter):
			issuer = c
		}
	}
	switch {
	case len(valid) > 0:
		issuer = valid[0][0]
	case issuer == nil:
		return periodOf([]*x509.Certificate{leaf}), nil
	}
	return periodOf([]*x509.Certificate{leaf, issuer}), pathsOf(valid, at)
}
