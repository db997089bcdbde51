package rotator

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// testCA signs leaves.
type testCA struct {
	root *x509.Certificate
	key  crypto.Signer
}

func newCA(tb testing.TB, generation int, now time.Time) testCA {
	tb.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(tb, err)
	root, err := pki.NewRoot(key, generation, pki.Constraints{PermittedDNS: []string{"svc", "cluster.local"}}, now.Add(-time.Hour), now.Add(10000*time.Hour))
	require.NoError(tb, err)
	return testCA{root, key}
}

// renamed is a CA with another subject than any of ours.
func (ca testCA) renamed(tb testing.TB) testCA {
	tb.Helper()
	template := *ca.root
	template.Subject.CommonName, template.RawSubject = "Example Corporation", nil
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, ca.key.Public(), ca.key)
	require.NoError(tb, err)
	ca.root, err = x509.ParseCertificate(der)
	require.NoError(tb, err)
	return ca
}

// issue returns a pair for the names, valid for an hour from issuedAt.
func (ca testCA) issue(tb testing.TB, issuedAt time.Time, names ...string) tls.Certificate {
	tb.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(tb, err)
	serial, err := pki.NewSerial()
	require.NoError(tb, err)
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: names, NotBefore: pki.NotBefore(issuedAt), NotAfter: issuedAt.Add(time.Hour).Truncate(time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.root, key.Public(), ca.key)
	require.NoError(tb, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(tb, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
