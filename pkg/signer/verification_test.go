package signer

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

// TestALeafIsDroppedOnceItsSignerIsKnown: the bytes of a certificate are kept only until its signer
// is known, and the result under any other Authority is the same as with the bytes.
func TestALeafIsDroppedOnceItsSignerIsKnown(t *testing.T) {
	l := generations(t, 3)
	first, second, third := l.At(epoch, 1), l.At(epoch, 2), l.At(epoch, 3)
	foreign := testCA(t)
	f := FactsOf(managed(issueBy(t, second, wantedBy(service("web")), epoch), service("web")), api.DefaultInstance)
	raw := f.verified.Load().raw
	require.Equal(t, f.Leaf.Sum, sha256.Sum256(raw))
	for range 3 { // repeatedly, and not in the order of time
		for _, ca := range []*pki.Authority{foreign, first, third, second, first, second, foreign} {
			fresh := FactsOf(managed(issue.Issued{CertPEM: pki.EncodeCertificates(&x509.Certificate{Raw: raw})}, service("web")), api.DefaultInstance)
			assert.Equal(t, fresh.SignedBy(ca), f.SignedBy(ca))
		}
	}
	assert.Empty(t, f.verified.Load().raw)

	unknown := FactsOf(managed(issueBy(t, foreign, wantedBy(service("web")), epoch), service("web")), api.DefaultInstance)
	assert.Nil(t, unknown.SignedBy(first))
	assert.NotEmpty(t, unknown.verified.Load().raw, "another Authority may know it")
	assert.NotNil(t, unknown.SignedBy(foreign))
}

// TestSignsAs: a CA signs as another if a signature of one is valid for the other.
func TestSignsAs(t *testing.T) {
	ca := testCA(t)
	again := func(change func(*x509.Certificate)) *x509.Certificate {
		template := *ca.Certificate
		template.SerialNumber = big.NewInt(77)
		change(&template)
		return signertest.Certify(t, &template, &template, ca.Key.Public(), ca.Key)
	}
	other := newCA(t, api.DefaultLimits().Constraints(), epoch.Add(-day), epoch.Add(day)).Certificate
	impostor := *other
	impostor.RawSubject = bytes.Clone(ca.Certificate.RawSubject)
	for name, c := range map[string]struct {
		ca   *x509.Certificate
		want bool
	}{
		"itself":               {ca.Certificate, true},
		"renewed with its key": {again(func(*x509.Certificate) {}), true},
		"with another name":    {again(func(c *x509.Certificate) { c.RawSubject = nil; c.Subject.CommonName = "x" }), false},
		"no CA": {again(func(c *x509.Certificate) {
			c.IsCA = false
			c.MaxPathLen = -1
			c.PermittedDNSDomains = nil
			c.ExcludedIPRanges = nil
		}), false},
		"a CA that may not sign":          {again(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }), false},
		"another":                         {other, false},
		"another key under the same name": {&impostor, false},
	} {
		assert.Equal(t, c.want, signsAs(c.ca, ca.Certificate), name)
	}
}
