package proxy

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// An Identity is what the proxy presents to servers that request a client certificate.
type Identity struct {
	ID          pki.SPIFFEID
	Certificate tls.Certificate
}

// ParseIdentity reads a private key in PKCS #8, followed by its certificate chain, as the kubelet writes
// them to credentialBundlePath. Errors never contain key material.
func ParseIdentity(data []byte) (*Identity, error) {
	_, rest := pem.Decode(data)
	key, err := pki.ParseKey(data[:len(data)-len(rest)])
	if err != nil {
		return nil, err
	}
	chain, err := pki.ParseCertificates(rest)
	if err != nil {
		return nil, err
	}
	if !pki.KeyMatches(chain[0], key) {
		return nil, errors.New("the first certificate is not that of the private key")
	}
	id, err := pki.IdentityOf(chain[0])
	if err != nil {
		return nil, fmt.Errorf("the first certificate: %w", err)
	}
	out := &Identity{id, tls.Certificate{PrivateKey: key, Leaf: chain[0]}}
	for _, c := range chain {
		out.Certificate.Certificate = append(out.Certificate.Certificate, c.Raw)
	}
	return out, nil
}

// Expired returns an error if the identity has expired.
func (i *Identity) Expired(now time.Time) error {
	if end := i.Certificate.Leaf.NotAfter; now.After(end) {
		return fmt.Errorf("the certificate has expired at %s", end.UTC().Format(time.RFC3339))
	}
	return nil
}

// Present returns the certificate for a server, or an empty one if the server does not accept it: it
// listed other CAs, or other algorithms.
func (i *Identity) Present(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if request.SupportsCertificate(&i.Certificate) == nil {
		return &i.Certificate, nil
	}
	return &tls.Certificate{}, nil
}
