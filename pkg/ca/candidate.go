package ca

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Candidate is an imported or remote CA that will be the next generation.
type Candidate struct {
	Origin        Origin
	Root          *x509.Certificate
	Intermediates []*x509.Certificate // as Generation.Intermediates
	Key           crypto.Signer       // nil for OriginRemote
	// Cross is the Root's key and subject signed by a CA that is not a generation, for clients
	// that hold only the root of that CA; may be nil. It is served only if the candidate is the
	// first generation: later ones get their cross-certificate from the previous generation.
	Cross *x509.Certificate
}

// NewCandidate returns the CA whose leaves are signed by issuer: the certificate,
// then the intermediates between it and root in order. If the root itself is the
// issuer, there are no intermediates.
func NewCandidate(origin Origin, issuer []*x509.Certificate, root *x509.Certificate, key crypto.Signer) Candidate {
	if len(issuer) > 0 && issuer[0].Equal(root) {
		issuer = issuer[1:]
	}
	return Candidate{Origin: origin, Root: root, Intermediates: issuer, Key: key}
}

// ParseImport reads the CA to import from the data of Secret api.CAImportName. Errors
// name the key of the Secret and never contain private key material.
func ParseImport(data map[string][]byte) (Candidate, error) {
	roots, err := pki.ParseCertificates(data[api.BundleKey])
	if err != nil || len(roots) != 1 {
		return Candidate{}, fmt.Errorf("%s: must hold one certificate in PEM: the root", api.BundleKey)
	}
	issuer, err := pki.ParseCertificates(data[corev1.TLSCertKey])
	if err != nil {
		return Candidate{}, fmt.Errorf("%s: must hold the CA's certificate in PEM, followed by the intermediates between it and the root", corev1.TLSCertKey)
	}
	if n := len(issuer); n > 1 && issuer[n-1].Equal(roots[0]) {
		issuer = issuer[:n-1] // the root is often left at the end
	}
	key, err := pki.ParseForeignKey(data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return Candidate{}, fmt.Errorf("%s: must hold one unencrypted private key in PEM: PKCS #8, PKCS #1 or SEC 1", corev1.TLSPrivateKeyKey)
	}
	c := NewCandidate(OriginImport, issuer, roots[0], key)
	if c.Cross, err = parseOne(data, api.CAImportCross); err != nil {
		return Candidate{}, err
	}
	return c, nil
}

// fingerprint identifies the CA.
func (c Candidate) fingerprint() string { return pki.Fingerprint(c.generation().Issuer()) }

// generation returns the candidate as a generation without a number.
func (c Candidate) generation() Generation {
	return Generation{Origin: c.Origin, Root: c.Root, Intermediates: c.Intermediates, Cross: c.Cross, Key: c.Key}
}

// check returns an error if the candidate cannot be a CA for the cluster's names, or
// expires before its root can be distributed.
func (c Candidate) check(p Parameters, now time.Time) error {
	g := c.generation()
	if err := validateRoot(c.Root); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	if err := validateIntermediates(g); err != nil {
		return fmt.Errorf("intermediates: %w", err)
	}
	if err := validateCross(State{Generations: []Generation{g}}, 0); err != nil {
		return fmt.Errorf("%s: %w", api.CAImportCross, err)
	}
	if c.Key != nil {
		if err := pki.CheckCA(g.Issuer(), c.Key, now); err != nil {
			return err
		}
		if _, known := pki.AlgorithmOf(c.Key.Public()); !known {
			return errors.New("the key algorithm is not supported: must be ECDSA (P-256, P-384, P-521), Ed25519 or RSA of at least 2048 bits")
		}
	}
	if len(c.Intermediates) > maxIntermediates {
		return fmt.Errorf("%d intermediates: must be at most %d", len(c.Intermediates), maxIntermediates)
	}
	if end := g.Ends(); end.Before(now.Add(p.Soak + time.Hour)) {
		return fmt.Errorf("it expires at %s: must be valid for at least an hour longer than the soak of a new CA, %s from now", formatTime(end), p.Soak)
	}
	path := g.path()
	for below, ca := range path {
		if err := canIssue(ca, below, p.Domain, now); err != nil {
			return fmt.Errorf("%s: %w", ca.Subject.CommonName, err)
		}
		// Only the issuer's NotAfter bounds that of a leaf.
		if above := path[min(below+1, len(path)-1)]; ca.NotAfter.After(above.NotAfter) {
			return fmt.Errorf("%s: it expires at %s, after its issuer, which expires at %s: must not expire later", ca.Subject.CommonName, formatTime(ca.NotAfter), formatTime(above.NotAfter))
		}
	}
	return nil
}

// canIssue returns an error if a CA with the given number of CAs below it in the path
// cannot issue server certificates.
func canIssue(ca *x509.Certificate, below int, clusterDomain string, now time.Time) error {
	switch {
	case ca.PublicKeyAlgorithm == x509.MLDSA: // clients that cannot verify it would trust none of its leaves
		return errors.New("its key is ML-DSA, which most clients cannot verify: must be ECDSA, Ed25519 or RSA")
	case now.Before(ca.NotBefore):
		return fmt.Errorf("it is not valid before %s", formatTime(ca.NotBefore))
	case hasPathLength(ca) && below > ca.MaxPathLen:
		return fmt.Errorf("its path length of %d does not allow the CAs below it", ca.MaxPathLen)
	case len(ca.ExtKeyUsage)+len(ca.UnknownExtKeyUsage) > 0 &&
		!slices.Contains(ca.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(ca.ExtKeyUsage, x509.ExtKeyUsageAny):
		return errors.New("its extended key usages do not allow server certificates: must include serverAuth, or be absent")
	}
	for _, domain := range []string{"svc", clusterDomain} {
		if !pki.PermitsDNS(ca, domain) {
			return fmt.Errorf("its name constraints do not permit %q, the domain of Services", domain)
		}
	}
	return nil
}

// maxIntermediates keeps the served chain, including cross-certificates, within
// Java's limit.
const maxIntermediates = 2
