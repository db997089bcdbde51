package cfssl

import (
	"context"
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// BenchmarkSign measures only the signature, by cfssl and by crypto/x509, to show the cost of
// cfssl.
func BenchmarkSign(b *testing.B) {
	cfssl, err := NewLocal()
	require.NoError(b, err)
	for _, signer := range []struct {
		name string
		sign issue.Sign
	}{{"cfssl", cfssl}, {"crypto-x509", plainSign()}} {
		b.Run(signer.name, func(b *testing.B) {
			ca := testCA(b)
			request := requestFor(b, pki.ECDSAP256, &x509.CertificateRequest{})
			for b.Loop() {
				_, err := signer.sign(context.Background(), ca, request)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkIssue measures everything but the writes: key, CSR, signature and the checks of the
// certificate.
func BenchmarkIssue(b *testing.B) {
	cfssl, err := NewLocal()
	require.NoError(b, err)
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.Ed25519, pki.RSA2048} {
		b.Run(string(algorithm), func(b *testing.B) {
			ca, wanted := testCA(b), wantedBy(service("web"))
			wanted.Params.KeyAlgorithm = algorithm
			for b.Loop() {
				_, err := issue.Issue(context.Background(), cfssl, ca, wanted, epoch)
				require.NoError(b, err)
			}
		})
	}
}
