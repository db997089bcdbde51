package pki

import (
	"crypto"
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNewCSR: the request contains only the key, and is signed with it.
func TestNewCSR(t *testing.T) {
	for _, algorithm := range KeyAlgorithms() {
		if algorithm == RSA3072 || algorithm == RSA4096 {
			continue // seconds, and as RSA2048
		}
		t.Run(string(algorithm), func(t *testing.T) {
			key := generate(t, algorithm)
			der, err := NewCSR(key)
			require.NoError(t, err)
			csr, err := x509.ParseCertificateRequest(der)
			require.NoError(t, err)
			require.NoError(t, csr.CheckSignature())
			assert.Equal(t, key.Public(), csr.PublicKey)
			assert.Empty(t, csr.Subject.String())
			assert.Empty(t, csr.Extensions)
			assert.Empty(t, csr.DNSNames)
		})
	}
}

func generate(t *testing.T, algorithm KeyAlgorithm) crypto.Signer {
	t.Helper()
	key, err := GenerateKey(algorithm)
	require.NoError(t, err)
	return key
}
