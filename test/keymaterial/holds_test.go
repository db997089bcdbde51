package keymaterial

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

// keyAlgorithms has one of each form; the length of an RSA key changes none.
func keyAlgorithms() []pki.KeyAlgorithm {
	return []pki.KeyAlgorithm{pki.ECDSAP256, pki.ECDSAP384, pki.ECDSAP521, pki.Ed25519, pki.RSA2048, pki.MLDSA44, pki.MLDSA65}
}

// Every key is found in every form, wherever it begins.
func TestHoldsAKey(t *testing.T) {
	for _, algorithm := range keyAlgorithms() {
		key, err := pki.GenerateKey(algorithm)
		require.NoError(t, err)
		encoded := map[string][]byte{}
		encoded["PKCS#8"], err = x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		switch key := key.(type) {
		case *ecdsa.PrivateKey:
			encoded["SEC 1"], err = x509.MarshalECPrivateKey(key)
			require.NoError(t, err)
		case *rsa.PrivateKey:
			encoded["PKCS#1"] = x509.MarshalPKCS1PrivateKey(key)
		}
		for form, der := range encoded {
			asPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
			inBase64 := base64.StdEncoding.EncodeToString(der)
			for what, text := range map[string]string{
				"DER":                     string(der),
				"PEM":                     asPEM,
				"base64 of DER":           inBase64,
				"base64 of DER, for URLs": base64.RawURLEncoding.EncodeToString(der),
				"base64 of PEM":           base64.StdEncoding.EncodeToString([]byte(asPEM)),
				"base64 of base64 of DER": base64.StdEncoding.EncodeToString([]byte(inBase64)),
				"base64 of base64 of PEM": base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(asPEM)))),
			} {
				for _, before := range []string{"", "a", "ab", "abc", "\x00\xff"} {
					assert.True(t, Holds([]byte(before+text+" and more")), "%s, %s, %s, after %q", algorithm, form, what, before)
				}
			}
		}
	}
}

// What is public is not taken for a key.
func TestHoldsNoKey(t *testing.T) {
	for _, algorithm := range keyAlgorithms() {
		key, err := pki.GenerateKey(algorithm)
		require.NoError(t, err)
		request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"web.shop.svc"}}, key)
		require.NoError(t, err)
		public, err := x509.MarshalPKIXPublicKey(key.Public())
		require.NoError(t, err)
		for what, der := range map[string][]byte{"a request": request, "a public key": public, "a CA": signertest.CA(t).Certificate.Raw} {
			assert.False(t, Holds(der), "%s, %s", algorithm, what)
			assert.False(t, Holds(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "%s, %s in PEM", algorithm, what)
			assert.False(t, Holds([]byte(base64.StdEncoding.EncodeToString(der))), "%s, %s in base64", algorithm, what)
		}
	}
	assert.False(t, Holds(nil))
}
