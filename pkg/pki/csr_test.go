package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNewCSR: what is signed is to the byte what crypto/x509 would sign, and the signature is
// good.
func TestNewCSR(t *testing.T) {
	for _, algorithm := range KeyAlgorithms() {
		if algorithm == RSA3072 || algorithm == RSA4096 {
			continue // seconds, and as RSA2048
		}
		t.Run(string(algorithm), func(t *testing.T) {
			for range 20 { // signatures differ in length
				key := generate(t, algorithm)
				der, err := NewCSR(key)
				require.NoError(t, err)
				csr, err := x509.ParseCertificateRequest(der)
				require.NoError(t, err)
				require.NoError(t, csr.CheckSignature())

				wantDER, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
				require.NoError(t, err)
				want, err := x509.ParseCertificateRequest(wantDER)
				require.NoError(t, err)
				assert.Equal(t, want.RawTBSCertificateRequest, csr.RawTBSCertificateRequest)
				assert.Equal(t, want.SignatureAlgorithm, csr.SignatureAlgorithm)
				assert.Equal(t, key.Public(), csr.PublicKey)
				if algorithm.IsRSA() {
					break
				}
			}
		})
	}
}

// TestAppendDER: lengths are written as encoding/asn1 writes them.
func TestAppendDER(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 255, 256, 300, 65535} {
		contents := bytes.Repeat([]byte{7}, n)
		want, err := asn1.Marshal(contents) // an OCTET STRING
		require.NoError(t, err)
		assert.Equal(t, want, derOf(asn1.TagOctetString, contents[:n/2], contents[n/2:]), "%d bytes", n)
	}
}

func generate(t *testing.T, algorithm KeyAlgorithm) crypto.Signer {
	t.Helper()
	key, err := GenerateKey(algorithm)
	require.NoError(t, err)
	return key
}
