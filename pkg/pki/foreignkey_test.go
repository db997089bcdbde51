package pki_test

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestParseForeignKey(t *testing.T) {
	ec, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	rsaKey, err := pki.GenerateKey(pki.RSA2048)
	require.NoError(t, err)
	sec1, err := x509.MarshalECPrivateKey(ec.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	pkcs8, err := pki.EncodeKey(ec)
	require.NoError(t, err)
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	pkcs1 := x509.MarshalPKCS1PrivateKey(rsaKey.(*rsa.PrivateKey))

	for form, key := range map[string][]byte{
		"PKCS #8": pkcs8, "SEC 1": block("EC PRIVATE KEY", sec1), "PKCS #1": block("RSA PRIVATE KEY", pkcs1),
		"with a newline after it": append(pkcs8, '\n'),
	} {
		got, err := pki.ParseForeignKey(key)
		require.NoError(t, err, form)
		want := ec.Public()
		if form == "PKCS #1" {
			want = rsaKey.Public()
		}
		assert.Equal(t, want, got.Public(), form)
	}
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":       {nil, "no PEM block in the private key"},
		"garbage":       {[]byte("garbage"), "no PEM block in the private key"},
		"two":           {append(pkcs8, pkcs8...), "data after the private key"},
		"encrypted":     {block("ENCRYPTED PRIVATE KEY", sec1), `PEM block is a "ENCRYPTED PRIVATE KEY": must be a private key that is not encrypted`},
		"a certificate": {block("CERTIFICATE", sec1), `PEM block is a "CERTIFICATE"`},
		"damaged SEC 1": {block("EC PRIVATE KEY", sec1[:20]), `PEM block "EC PRIVATE KEY" cannot be decoded`},
		"damaged RSA":   {block("RSA PRIVATE KEY", pkcs1[:20]), `PEM block "RSA PRIVATE KEY" cannot be decoded`},
	} {
		_, err := pki.ParseForeignKey(c.data)
		assert.ErrorContains(t, err, c.want, what)
	}
}
