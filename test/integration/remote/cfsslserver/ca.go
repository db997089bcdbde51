package cfsslserver

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

// caLifetime is longer than any certificate that a test asks for.
const caLifetime = 5 * 365 * 24 * time.Hour

// CA is one that a server can sign with.
type CA struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// NewCA returns a root that is constrained to the names of a cluster.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	return newCA(t, name, nil)
}

// Below returns a CA that this one has signed.
func (c *CA) Below(t testing.TB, name string) *CA {
	t.Helper()
	return newCA(t, name, c)
}

// newCA returns a CA under above, or a root if that is nil.
func newCA(t testing.TB, name string, above *CA) *CA {
	t.Helper()
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:                serial,
		Subject:                     pkix.Name{CommonName: name},
		NotBefore:                   time.Now().Add(-time.Hour),
		NotAfter:                    time.Now().Add(caLifetime),
		IsCA:                        true,
		BasicConstraintsValid:       true,
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         []string{"svc", "cluster.local"},
	}
	by := &CA{Certificate: template, Key: key}
	if above != nil {
		by, template.NotAfter = above, above.Certificate.NotAfter
	}
	cert := signertest.Certify(t, template, by.Certificate, key.Public(), by.Key)
	return &CA{Certificate: cert, Key: key}
}
