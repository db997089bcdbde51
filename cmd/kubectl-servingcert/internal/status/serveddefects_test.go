package status

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
	"github.com/servingcert/servingcert/test/signertest"
)

const day = 24 * time.Hour

// signedBy returns a certificate by the CA, with the changes.
func signedBy(t *testing.T, ca *x509.Certificate, key crypto.Signer, public crypto.PublicKey, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{"web.shop.svc"}, NotBefore: noon, NotAfter: noon.Add(70 * day),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	return signertest.Certify(t, template, ca, public, key)
}

// TestWhatClientsRefuse is a problem for which the exit code is 1, and what the signer calls overdue is one that
// is shown.
func TestWhatClientsRefuse(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, noon.Add(-day))
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	same := func(*x509.Certificate) {}
	intermediate := func(from, until time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.Subject, c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.DNSNames = pkix.Name{CommonName: "Intermediate"}, true, true, x509.KeyUsageCertSign, nil
			c.NotBefore, c.NotAfter = noon.Add(from), noon.Add(until)
		}
	}
	roots := Roots{Public: poolOf(ca.Root)}
	web := selecting("web", 8443)
	port := PodPort{selecting: []*corev1.Service{&web}}
	for name, tt := range map[string]struct {
		public  crypto.PublicKey
		leaf    func(*x509.Certificate)
		between func(*x509.Certificate)
		roots   Roots
		at      time.Duration
		want    []string
	}{
		"all is well":                      {key.Public(), same, intermediate(-day, 100*day), roots, day, nil},
		"an intermediate has ended":        {key.Public(), same, intermediate(-day, 20*day), roots, 21 * day, []string{ProblemExpired}},
		"it ended, and its root is absent": {key.Public(), same, intermediate(-day, 20*day), Roots{}, 21 * day, []string{ProblemExpired, ProblemUntrusted}},
		"it ended before the leaf began":   {key.Public(), same, intermediate(-2*day, -day), roots, day, []string{ProblemExpired, ProblemUntrusted}},
		"an intermediate begins later":     {key.Public(), same, intermediate(2*day, 100*day), roots, day, []string{ProblemNotYetValid}},
		"the leaf begins later":            {key.Public(), same, intermediate(-day, 100*day), roots, -time.Hour, []string{ProblemNotYetValid}},
		"a small key":                      {small.Public(), same, intermediate(-day, 100*day), roots, day, []string{ProblemUsage}},
		"the usages of a CA":               {key.Public(), func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign }, intermediate(-day, 100*day), roots, day, []string{ProblemUsage}},
		"not for servers":                  {key.Public(), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, intermediate(-day, 100*day), roots, day, []string{ProblemUsage, ProblemUntrusted}},
		"less than a tenth is left":        {key.Public(), same, intermediate(-day, 100*day), roots, 64 * day, []string{ProblemExpiring, ProblemOverdue}},
		"less than a day is left":          {key.Public(), func(c *x509.Certificate) { c.NotAfter = noon.Add(6 * day) }, intermediate(-day, 100*day), roots, 5*day + time.Hour, []string{ProblemOverdue}},
		"an intermediate ends soon":        {key.Public(), same, intermediate(-day, 20*day), roots, 14 * day, []string{ProblemOverdue}},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := signedBy(t, ca.Root, ca.Key, key.Public(), tt.between)
			leaf := signedBy(t, issuer, key, tt.public, tt.leaf)
			s := port.Served(probe.Outcome{Kind: probe.TLS, Chain: []*x509.Certificate{leaf, issuer}}, nil, tt.roots, noon.Add(tt.at))
			assert.Equal(t, tt.want, s.Problems)
			assert.Equal(t, tt.public == small.Public(), s.Usage == "its RSA key has 1024 bits: must have at least 2048", s.Usage)
		})
	}
}

// TestVerifyTheChainOfAnotherIssuer: a Service's own check fails for an end of the chain too.
func TestVerifyTheChainOfAnotherIssuer(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, noon.Add(-day))
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	between := signedBy(t, ca.Root, ca.Key, key.Public(), func(c *x509.Certificate) {
		c.Subject, c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.DNSNames = pkix.Name{CommonName: "Intermediate"}, true, true, x509.KeyUsageCertSign, nil
		c.NotBefore, c.NotAfter = noon.Add(day), noon.Add(20*day)
	})
	leaf := signedBy(t, between, key, key.Public(), func(*x509.Certificate) {})
	s := VerifySituation{SecretCA: poolOf(ca.Root)}
	for at, want := range map[time.Duration]Finding{
		-time.Hour: {VerdictFailed, "web: it, or a certificate of its chain, is not valid before 2026-03-02T12:00:00Z"},
		time.Hour:  {VerdictFailed, "web: it, or a certificate of its chain, is not valid before 2026-03-02T12:00:00Z"},
		2 * day:    {VerdictOK, "web: of another issuer, for web.shop.svc until 2026-05-10T12:00:00Z; roots that verify it: secret"},
		20 * day:   {VerdictFailed, "web: a certificate of its chain expired at 2026-03-21T12:00:00Z: its issuer has to renew it"},
		70 * day:   {VerdictFailed, "web: expired at 2026-05-10T12:00:00Z: its issuer has to renew it"},
	} {
		assert.Equal(t, want, checkForeign("web", s, []*x509.Certificate{leaf, between}, pki.Bundle{}, noon.Add(at)))
	}
}
