package pki_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestKeysRoundTrip(t *testing.T) {
	for _, algorithm := range pki.KeyAlgorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			parsed, err := pki.ParseKeyAlgorithm(string(algorithm))
			require.NoError(t, err)
			require.Equal(t, algorithm, parsed)

			key := newKey(t, algorithm)
			got, ok := pki.AlgorithmOf(key.Public())
			require.True(t, ok)
			assert.Equal(t, algorithm, got, "the key is of the algorithm that was asked for")
			assert.Equal(t, strings.HasPrefix(string(algorithm), "RSA"), algorithm.IsRSA())

			encoded, err := pki.EncodeKey(key)
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(string(encoded), "-----BEGIN PRIVATE KEY-----\n"), "PKCS #8")
			decoded, err := pki.ParseKey(encoded)
			require.NoError(t, err)
			assert.True(t, key.(interface{ Equal(crypto.PrivateKey) bool }).Equal(decoded))

			root, err := pki.NewRoot(key, 1, clusterOnly, start, start.Add(year))
			require.NoError(t, err)
			assert.True(t, pki.KeyMatches(root, decoded))
		})
	}
}

func TestKeyMatches(t *testing.T) {
	root := newRoot(t, 1, clusterOnly)
	assert.True(t, pki.KeyMatches(root.cert, root.key))
	assert.False(t, pki.KeyMatches(root.cert, newKey(t, pki.ECDSAP256)), "another key of the same kind")
	assert.False(t, pki.KeyMatches(root.cert, newKey(t, pki.Ed25519)), "a key of another kind")
	assert.False(t, pki.KeyMatches(&x509.Certificate{}, root.key), "a certificate with a key that Go does not know")
}

func TestUnknownAlgorithms(t *testing.T) {
	for _, name := range []string{"", "rsa2048", "RSA1024", "ECDSAP224", "ED25519 ", "dsa"} {
		_, err := pki.ParseKeyAlgorithm(name)
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), "must be one of ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA2048, RSA3072, RSA4096, MLDSA44, MLDSA65")
		_, err = pki.GenerateKey(pki.KeyAlgorithm(name))
		assert.Error(t, err, name)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	_, ok := pki.AlgorithmOf(p224.Public())
	assert.False(t, ok)
	odd, err := rsa.GenerateKey(rand.Reader, 2056)
	require.NoError(t, err)
	_, ok = pki.AlgorithmOf(odd.Public())
	assert.False(t, ok)
}

func TestParseKeyRefuses(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	good, err := pki.EncodeKey(key)
	require.NoError(t, err)
	sec1, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	block, _ := pem.Decode(good)
	cases := []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "no PEM block"},
		{"text", []byte("hello"), "no PEM block"},
		{"cut off", good[:len(good)-10], "no PEM block"},
		{"SEC 1", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}), "must be a \"PRIVATE KEY\" (PKCS #8)"},
		{"SEC 1 in disguise", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: sec1}), "not valid PKCS #8"},
		{"two", append(append([]byte{}, good...), good...), "data after the private key"},
		{"text after", append(append([]byte{}, good...), "x"...), "data after the private key"},
		{"text before", append([]byte("Bag Attributes\n"), good...), "text before the private key"},
		{"a damaged block before", append([]byte("-----BEGIN PRIVATE KEY-----\n"), good...), "text before the private key"},
		{"headers", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: block.Bytes}), "PEM headers"},
		{"half of the DER", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: block.Bytes[:40]}), "not valid PKCS #8"},
	}
	for _, c := range cases {
		got, err := pki.ParseKey(c.data)
		assert.ErrorContains(t, err, c.want, c.name)
		assert.Nil(t, got, c.name)
		if err != nil {
			for line := range strings.Lines(string(good)) {
				assert.NotContains(t, err.Error()+"\n", line, "%s: the error holds key material", c.name)
			}
		}
	}
}

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
		"text before":   {append([]byte("a key\n"), pkcs8...), "text before the private key"},
		"encrypted by OpenSSL": {pem.EncodeToMemory(&pem.Block{
			Type: "RSA PRIVATE KEY", Bytes: pkcs1, Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"},
		}), "the private key has PEM headers"},
	} {
		_, err := pki.ParseForeignKey(c.data)
		assert.ErrorContains(t, err, c.want, what)
	}
}
