package issue

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

// What the tests of several packages start from.
var (
	epoch        = signertest.Epoch
	clusterNames = signertest.ClusterNames
	newCA        = signertest.NewCA
	testCA       = signertest.CA
	service      = signertest.Service
	wantedBy     = signertest.WantedBy
)

const day = signertest.Day

// plainSign signs the request with crypto/x509 only, changed by the given functions.
func plainSign(change ...signertest.Change) Sign {
	return func(_ context.Context, ca *pki.Authority, request SigningRequest) (*x509.Certificate, error) {
		return signertest.Sign(ca, signertest.Request(request), change...)
	}
}

// issueBy makes the pair that ca gives at a time.
func issueBy(t require.TestingT, ca *pki.Authority, wanted api.Wanted, at time.Time) Issued {
	issued, err := Issue(context.Background(), plainSign(), ca, wanted, at)
	require.NoError(t, err)
	return issued
}

// givesReason reports whether the error has a reason for the condition.
func givesReason(err error) bool {
	var reasoned interface{ Reason() string }
	return errors.As(err, &reasoned)
}

// Invariant 2: a certificate that differs from the request is refused, whatever the CA signs.
func TestInvariant2OnlyWhatWasAskedForLeaves(t *testing.T) {
	ca, other := testCA(t), testCA(t)
	forged := signertest.Forge(t, ca)
	anotherKey, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	uri, err := url.Parse("spiffe://cluster.local/ns/shop")
	require.NoError(t, err)
	type change = func(c *x509.Certificate, by *pki.Authority)

	for name, c := range map[string]struct {
		change  change
		refusal string
	}{
		"another key":    {func(c *x509.Certificate, _ *pki.Authority) { c.PublicKey = anotherKey.Public() }, "it is for another key"},
		"an extra name":  {func(c *x509.Certificate, _ *pki.Authority) { c.DNSNames = append(c.DNSNames, "db.shop.svc") }, "its names are"},
		"a missing name": {func(c *x509.Certificate, _ *pki.Authority) { c.DNSNames = c.DNSNames[1:] }, "its names are"},
		"another name":   {func(c *x509.Certificate, _ *pki.Authority) { c.DNSNames[0] = "db.shop.svc" }, "its names are"},
		"a name twice":   {func(c *x509.Certificate, _ *pki.Authority) { c.DNSNames = append(c.DNSNames, c.DNSNames[0]) }, "its names are"},
		"no names":       {func(c *x509.Certificate, _ *pki.Authority) { c.DNSNames = nil }, "its names are"},
		"an IP address":  {func(c *x509.Certificate, _ *pki.Authority) { c.IPAddresses = []net.IP{{10, 0, 0, 1}} }, "its IP addresses are"},
		"a mail address": {func(c *x509.Certificate, _ *pki.Authority) { c.EmailAddresses = []string{"a@web.shop.svc"} }, "neither a DNS name nor an IP address: rfc822Name"},
		"a URI":          {func(c *x509.Certificate, _ *pki.Authority) { c.URIs = []*url.URL{uri} }, "neither a DNS name nor an IP address: uniformResourceIdentifier"},
		"another kind of name": {func(c *x509.Certificate, _ *pki.Authority) {
			c.ExtraExtensions = []pkix.Extension{otherNames(t, c.DNSNames, "db.shop.svc")}
		}, "neither a DNS name nor an IP address: otherName"},
		"a name of no kind": {func(c *x509.Certificate, _ *pki.Authority) {
			c.ExtraExtensions = []pkix.Extension{namesOf(t, c.DNSNames, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 9, Bytes: []byte("x")})}
		}, "neither a DNS name nor an IP address: of an unknown kind"},
		"a name as subject":            {func(c *x509.Certificate, _ *pki.Authority) { c.Subject = pkix.Name{CommonName: "db.shop.svc"} }, `its common name is "db.shop.svc"`},
		"a host and a time as subject": {func(c *x509.Certificate, _ *pki.Authority) { c.Subject = pkix.Name{CommonName: "web-0@1772366400"} }, `its common name is "web-0@1772366400"`},
		"a short name":                 {func(c *x509.Certificate, _ *pki.Authority) { c.DNSNames = append(c.DNSNames, "web") }, "its names are"},
		"a CA":                         {func(c *x509.Certificate, _ *pki.Authority) { c.IsCA = true }, "it is a CA"},
		"a usage more":                 {func(c *x509.Certificate, _ *pki.Authority) { c.KeyUsage |= x509.KeyUsageCertSign }, "its key usage is 0x21, must be 0x1"},
		"RSA's usage":                  {func(c *x509.Certificate, _ *pki.Authority) { c.KeyUsage |= x509.KeyUsageKeyEncipherment }, "its key usage is 0x5, must be 0x1"},
		"no usage":                     {func(c *x509.Certificate, _ *pki.Authority) { c.KeyUsage = 0 }, "its key usage is 0x0"},
		"client auth too": {func(c *x509.Certificate, _ *pki.Authority) {
			c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		}, "must be serverAuth only"},
		"client auth alone": {func(c *x509.Certificate, _ *pki.Authority) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}, "must be serverAuth only"},
		"any usage":        {func(c *x509.Certificate, _ *pki.Authority) { c.ExtKeyUsage = nil }, "must be serverAuth only"},
		"an unknown usage": {func(c *x509.Certificate, _ *pki.Authority) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3}} }, "must be serverAuth only"},
		"a later end":      {func(c *x509.Certificate, _ *pki.Authority) { c.NotAfter = c.NotAfter.Add(time.Second) }, "must not expire after 2026-03-31T11:55:00Z"},
		"too long ago":     {func(c *x509.Certificate, _ *pki.Authority) { c.NotBefore = c.NotBefore.Add(-MaxBackdate - time.Second) }, "must not be valid earlier than 1h10m0s before it is issued"},
		"too short": {func(c *x509.Certificate, _ *pki.Authority) {
			c.NotAfter = c.NotBefore.Add(15*time.Minute - time.Second)
		}, "its lifetime is 14m59s, must be at least 15m0s"},
		"due already": {func(c *x509.Certificate, _ *pki.Authority) {
			c.NotBefore, c.NotAfter = epoch.Add(-time.Hour), epoch.Add(4*time.Minute)
		}, "would be due for renewal at "},
		"begins later": {func(c *x509.Certificate, _ *pki.Authority) { c.NotBefore = epoch.Add(time.Second) }, "it is not valid before 2026-03-01T12:00:01Z"},
		"over already": {func(c *x509.Certificate, _ *pki.Authority) { c.NotAfter = epoch.Add(-time.Minute) }, "rejects it"},
		"another CA":   {func(_ *x509.Certificate, by *pki.Authority) { *by = *other }, "rejects it"},
		"a forged CA":  {func(_ *x509.Certificate, by *pki.Authority) { *by = *forged }, "rejects it"},
	} {
		t.Run(name, func(t *testing.T) {
			issued, err := Issue(context.Background(), plainSign(c.change), ca, wantedBy(service("web")), epoch)
			assert.Zero(t, issued)
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			assert.ErrorContains(t, err, c.refusal)
			assert.Equal(t, "SigningRefused", refused.Reason())
		})
	}
	t.Run("as asked for", func(t *testing.T) {
		issued := issueBy(t, ca, wantedBy(service("web")), epoch)
		certs, err := pki.ParseCertificates(issued.CertPEM)
		require.NoError(t, err)
		assert.Equal(t, []*x509.Certificate{issued.Leaf}, certs, "without the root")
		key, err := pki.ParseKey(issued.KeyPEM)
		require.NoError(t, err)
		assert.True(t, pki.KeyMatches(issued.Leaf, key))
	})
	t.Run("shorter than asked for, as a remote CA may", func(t *testing.T) {
		_, err := Issue(context.Background(), plainSign(func(c *x509.Certificate, _ *pki.Authority) { c.NotAfter = c.NotAfter.Add(-time.Hour) }), ca, wantedBy(service("web")), epoch)
		assert.NoError(t, err)
	})
	t.Run("one of the names as subject", func(t *testing.T) {
		_, err := Issue(context.Background(), plainSign(func(c *x509.Certificate, _ *pki.Authority) { c.Subject.CommonName = c.DNSNames[0] }), ca, wantedBy(service("web")), epoch)
		assert.NoError(t, err)
	})
}

// namesOf returns a subjectAltName extension with DNS names and other names.
func namesOf(t *testing.T, dns []string, more ...asn1.RawValue) pkix.Extension {
	var names []asn1.RawValue
	for _, name := range dns {
		names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte(name)})
	}
	value, err := asn1.Marshal(append(names, more...))
	require.NoError(t, err)
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}
}

// otherNames adds one as Active Directory has them, a user's principal name.
func otherNames(t *testing.T, dns []string, principal string) pkix.Extension {
	id, err := asn1.Marshal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3})
	require.NoError(t, err)
	text, err := asn1.MarshalWithParams(principal, "utf8,explicit,tag:0")
	require.NoError(t, err)
	return namesOf(t, dns, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: append(id, text...)})
}

// Each root of the bundle alone must verify the certificate: a client may hold any one of them.
func TestIssueVerifiesUnderEachRoot(t *testing.T) {
	ca, next := testCA(t), testCA(t)
	wanted := wantedBy(service("web"))
	both := pki.NewBundle(ca.Certificate, next.Certificate)

	unlinked := &pki.Authority{Issuer: next.Issuer, Key: next.Key, Bundle: both, Anchors: both.Certificates(), SignUntil: next.SignUntil}
	_, err := Issue(context.Background(), plainSign(), unlinked, wanted, epoch)
	require.ErrorContains(t, err, "a client that trusts only "+`"`+ca.Certificate.Subject.CommonName)

	template := *next.Certificate
	cross := signertest.Certify(t, &template, ca.Certificate, next.Key.Public(), ca.Key)
	linked := *unlinked
	linked.Chain = []*x509.Certificate{cross}
	issued, err := Issue(context.Background(), plainSign(), &linked, wanted, epoch)
	require.NoError(t, err)
	certs, err := pki.ParseCertificates(issued.CertPEM)
	require.NoError(t, err)
	assert.Equal(t, []*x509.Certificate{issued.Leaf, cross}, certs)

	linked.Anchors = nil
	_, err = Issue(context.Background(), plainSign(), &linked, wanted, epoch)
	assert.ErrorContains(t, err, "the CA has no root")
}

func TestIssueTimes(t *testing.T) {
	wanted := wantedBy(service("web", api.AnnotationDuration, "48h"))
	t.Run("whole seconds, backdated", func(t *testing.T) {
		leaf := issueBy(t, testCA(t), wanted, epoch).Leaf
		assert.Equal(t, time.Date(2026, 3, 1, 11, 55, 0, 0, time.UTC), leaf.NotBefore)
		assert.Equal(t, time.Date(2026, 3, 3, 11, 55, 0, 0, time.UTC), leaf.NotAfter)
	})
	t.Run("ends with its CA", func(t *testing.T) {
		ca := newCA(t, clusterNames, epoch.Add(-day), epoch.Add(day))
		assert.Equal(t, ca.Certificate.NotAfter, issueBy(t, ca, wanted, epoch).Leaf.NotAfter)
	})
	t.Run("not beyond what the CA has promised", func(t *testing.T) {
		ca := testCA(t)
		ca.SignUntil = epoch.Add(47 * time.Hour)
		_, err := Issue(context.Background(), plainSign(), ca, wanted, epoch)
		assert.ErrorContains(t, err, "the CA signs nothing that expires after 2026-03-03T11:00:00Z")
		assert.False(t, givesReason(err))
	})
	t.Run("not under a CA that has yet to begin", func(t *testing.T) {
		_, err := Issue(context.Background(), plainSign(), newCA(t, clusterNames, epoch.Add(time.Minute), epoch.Add(day)), wanted, epoch)
		assert.ErrorContains(t, err, "rejects it")
	})
}

func TestIssuePassesErrorsOn(t *testing.T) {
	wanted := wantedBy(service("web"))
	failing := func(context.Context, *pki.Authority, SigningRequest) (*x509.Certificate, error) {
		return nil, assert.AnError
	}
	_, err := Issue(context.Background(), failing, testCA(t), wanted, epoch)
	require.ErrorIs(t, err, assert.AnError)
	assert.False(t, givesReason(err))

	wanted.Params.KeyAlgorithm = "DSA1024"
	_, err = Issue(context.Background(), failing, testCA(t), wanted, epoch)
	assert.ErrorContains(t, err, `unknown key algorithm "DSA1024"`)
}
