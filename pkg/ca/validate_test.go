package ca

import (
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// ending returns the root with another end, signed by its own key.
func ending(t *testing.T, g Generation, notAfter time.Time) *x509.Certificate {
	t.Helper()
	template := *g.Root
	template.NotAfter = notAfter
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, g.Key.Public(), g.Key)
	require.NoError(t, err)
	root, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return root
}

func TestIntermediatesThatLeadNowhere(t *testing.T) {
	root := foreignCA(t, "Root", nil)
	policy := foreignCA(t, "Policy CA", &root)
	issuing := foreignCA(t, "Issuing CA", &policy)
	noCA := foreignCA(t, "No CA", &root, func(c *x509.Certificate) { c.IsCA = false })
	for _, c := range []struct {
		path []*x509.Certificate
		want string
	}{
		{[]*x509.Certificate{issuing.cert, policy.cert}, ""},
		{[]*x509.Certificate{noCA.cert}, "certificate 1: the certificate is not a CA"},
		{[]*x509.Certificate{issuing.cert}, "certificate 1 (Issuing CA) was not signed by Root"},
		{[]*x509.Certificate{issuing.cert, policy.cert, policy.cert}, "certificate 2 (Policy CA) was not signed by Policy CA"},
	} {
		err := validateIntermediates(Generation{Root: root.cert, Intermediates: c.path})
		if c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, c.want)
		}
	}
}

func TestANumberIsGivenOnce(t *testing.T) {
	s := generations(t, 1, 2, 2)
	s.Generations[0].Number = 2
	_, err := EncodeState(s)
	assert.ErrorContains(t, err, "generation 2 is listed after generation 2: must be in ascending order")
}

// A CA certificate that expires before its leaves is not the one that was written. If
// it counted as expired, it would be replaced at once, and its key erased.
func TestACertificateThatEndsTooEarlyIsAnother(t *testing.T) {
	s := newScript(t)
	s.ask("overlap", "audit")
	s.take(StepPrepare)
	for number, want := range map[int]string{
		1: "generation-1.crt: expires at 2026-03-01T12:00:00Z, but certificates under it may be in use until 2026-05-31T13:00:00Z: it is not the certificate that was written",
		2: "generation-2.cross.crt: the certificate expires after generation-2.crt, which expires at 2026-03-01T12:00:00Z: one of them is not the certificate that was written",
	} {
		data := with(s.Secret, nil)
		data[certificateKey(number)] = pki.EncodeCertificates(ending(t, s.state().Generations[number-1], start))
		_, err := ParseState(data)
		assert.ErrorContains(t, err, want)
	}
	last := ending(t, s.state().Generations[0], s.state().Generations[0].UsedUntil)
	_, err := ParseState(with(s.Secret, map[string][]byte{certificateKey(1): pki.EncodeCertificates(last)}))
	assert.NoError(t, err, "as short as possible")
}
