package proxy

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// maxChain is the maximum number of certificates that a client may present. A CA that was replaced three
// times makes four.
const maxChain = 8

// ClientRoots verify clients. They do not change.
type ClientRoots struct {
	pool *x509.CertPool
	// TrustDomain is that of all roots.
	TrustDomain string
	// Size is the number of roots, and Ignored the number of certificates that are not roots of a CA for
	// clients.
	Size, Ignored int
}

// ParseClientRoots reads the roots in a CA bundle of at most the given number of bytes. It ignores those
// without a trust domain, which are not for clients.
func ParseClientRoots(pem []byte, most int) (*ClientRoots, error) {
	bundle, err := pki.ParseRoots(pem, most)
	if err != nil {
		return nil, err
	}
	r := &ClientRoots{pool: x509.NewCertPool()}
	for _, root := range bundle.Certificates() {
		domain := pki.TrustDomainOf(root)
		switch {
		case domain == "":
			r.Ignored++
			continue
		case r.TrustDomain == "":
			r.TrustDomain = domain
		case r.TrustDomain != domain:
			return nil, fmt.Errorf("has roots of trust domains %q and %q: must be of one", r.TrustDomain, domain)
		}
		r.pool.AddCert(root)
		r.Size++
	}
	if r.Size == 0 {
		return nil, errors.New("has no root of a CA for clients: such a root permits clientAuth only, and URIs of one trust domain")
	}
	return r, nil
}

// Caller returns the client that presented the certificates. If it has no verified identity, the error
// states why.
func (r *ClientRoots) Caller(certs []*x509.Certificate, now time.Time) (Caller, error) {
	if len(certs) == 0 {
		return Caller{Without: NoCertificate}, errors.New("no certificate")
	}
	id, err := r.verify(certs, now)
	if err != nil {
		return Caller{Without: Unverified}, err
	}
	return Caller{ID: id}, nil
}

func (r *ClientRoots) verify(certs []*x509.Certificate, now time.Time) (pki.SPIFFEID, error) {
	leaf := certs[0]
	cas, err := intermediates(certs)
	if err == nil {
		_, err = leaf.Verify(x509.VerifyOptions{
			Roots: r.pool, Intermediates: pki.PoolOf(cas), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
	}
	if err != nil {
		return pki.SPIFFEID{}, err
	}
	switch {
	case leaf.IsCA: // X509-SVID, 5.2
		return pki.SPIFFEID{}, errors.New("it is a CA")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth): // Verify accepts one without any usage
		return pki.SPIFFEID{}, errors.New("it is not for clients")
	}
	id, err := pki.IdentityOf(leaf)
	if err == nil && id.TrustDomain != r.TrustDomain {
		err = fmt.Errorf("its trust domain is %q, must be %q", excerpt(id.TrustDomain), r.TrustDomain)
	}
	return id, err
}

// intermediates returns the CAs in a chain, without roots, or an error if the chain would take long to verify. Of CAs
// with one name, Verify would try each in each place, up to 100 signatures; the generations of a CA have names of their
// own.
func intermediates(chain []*x509.Certificate) ([]*x509.Certificate, error) {
	if len(chain) > maxChain {
		return nil, fmt.Errorf("%d certificates: must be at most %d", len(chain), maxChain)
	}
	var cas []*x509.Certificate
	for i, c := range chain {
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > pki.MaxRSA {
			return nil, fmt.Errorf("an RSA key of %d bits: must be at most %d", key.N.BitLen(), pki.MaxRSA)
		}
		if i == 0 || bytes.Equal(c.RawSubject, c.RawIssuer) || slices.ContainsFunc(cas, c.Equal) {
			continue
		}
		if slices.ContainsFunc(cas, func(other *x509.Certificate) bool { return bytes.Equal(c.RawSubject, other.RawSubject) }) {
			return nil, errors.New("two of its CAs have the same name")
		}
		cas = append(cas, c)
	}
	return cas, nil
}
