package pki_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// start is when everything in these tests happens.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const year = 365 * 24 * time.Hour

// clusterOnly are the constraints of a signer without flags.
var clusterOnly = pki.Constraints{PermittedDNS: []string{"svc", "cluster.local"}}

// authority is a root with its key.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newKey(t testing.TB, a pki.KeyAlgorithm) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(a)
	require.NoError(t, err)
	return key
}

func newRoot(t testing.TB, n int, constraints pki.Constraints) authority {
	t.Helper()
	key := newKey(t, pki.ECDSAP256)
	root, err := pki.NewRoot(key, n, constraints, start, start.Add(3*year))
	require.NoError(t, err)
	return authority{root, key}
}

// leaf returns a serving certificate with the names, signed whatever the CA
// permits: what refuses it is the verifier.
func (a authority) leaf(t testing.TB, dnsNames []string, ips ...net.IP) *x509.Certificate {
	t.Helper()
	return a.leafWith(t, dnsNames, func(template *x509.Certificate) { template.IPAddresses = ips })
}

// leafWith is the same with anything else that is wanted.
func (a authority) leafWith(t testing.TB, dnsNames []string, with func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial,
		DNSNames:     dnsNames,
		NotBefore:    start,
		NotAfter:     start.Add(720 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	with(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, newKey(t, pki.ECDSAP256).Public(), a.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}
