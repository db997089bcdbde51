package proxy_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

var then = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const someBytes = 1 << 20

// authority is a root with its key.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	return key
}

func newAuthority(t testing.TB, n int, constraints pki.Constraints) authority {
	t.Helper()
	key := newKey(t)
	root, err := pki.NewRoot(key, n, constraints, then.Add(-time.Hour), then.AddDate(1, 0, 0))
	require.NoError(t, err)
	return authority{root, key}
}

// issue returns the certificate of a client with a key.
func (a authority) issue(t testing.TB, key crypto.Signer, uri string, change ...func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: then.Add(-time.Hour), NotAfter: then.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if uri != "" {
		parsed, err := url.Parse(uri)
		require.NoError(t, err)
		template.URIs = []*url.URL{parsed}
	}
	for _, f := range change {
		f(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

func pemOf(of ...authority) []byte {
	var out []byte
	for _, a := range of {
		out = append(out, pki.EncodeCertificates(a.cert)...)
	}
	return out
}

const cart = "spiffe://example.com/ns/shop/sa/cart"

func TestClientRoots(t *testing.T) {
	servers := newAuthority(t, 1, pki.Constraints{PermittedDNS: []string{"svc"}})
	old, other := newAuthority(t, 1, pki.ForClients("example.com")), newAuthority(t, 1, pki.ForClients("example.org"))
	renewed := newAuthority(t, 2, pki.ForClients("example.com"))
	cross, err := pki.NewCross(renewed.cert, old.cert, old.key, then)
	require.NoError(t, err)
	roots, err := proxy.ParseClientRoots(pemOf(old, servers), someBytes)
	require.NoError(t, err)
	require.Equal(t, "example.com", roots.TrustDomain)
	require.Equal(t, 1, roots.Size)
	require.Equal(t, 1, roots.Ignored)

	key := newKey(t)
	again, err := pki.NewCross(renewed.cert, old.cert, old.key, then.Add(-time.Minute))
	require.NoError(t, err)
	change := func(f func(*x509.Certificate)) *x509.Certificate { return old.issue(t, key, cart, f) }
	second, err := url.Parse("spiffe://example.com/ns/shop/sa/other")
	require.NoError(t, err)
	good, byRenewed := old.issue(t, key, cart), renewed.issue(t, key, cart)
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		want  string // of the error
	}{
		"valid":                     {[]*x509.Certificate{good}, ""},
		"by the next CA":            {[]*x509.Certificate{byRenewed, cross}, ""},
		"by the next, and no cross": {[]*x509.Certificate{byRenewed}, "unknown authority"},
		"of a CA that is ignored":   {[]*x509.Certificate{servers.issue(t, key, "")}, "unknown authority"},
		"an identity of that CA":    {[]*x509.Certificate{servers.issue(t, key, cart)}, "unknown authority"},
		"another trust domain":      {[]*x509.Certificate{old.issue(t, key, "spiffe://example.org/ns/shop/sa/cart")}, "constraint"},
		"of the root of another":    {[]*x509.Certificate{other.issue(t, key, "spiffe://example.org/ns/shop/sa/cart")}, "unknown authority"},
		"below the trust domain":    {[]*x509.Certificate{old.issue(t, key, "spiffe://a.example.com/ns/shop/sa/cart")}, `its trust domain is "a.example.com", must be "example.com"`},
		"in capitals":               {[]*x509.Certificate{old.issue(t, key, "spiffe://EXAMPLE.com/ns/shop/sa/cart")}, `its trust domain is "EXAMPLE.com"`},
		"without a URI":             {[]*x509.Certificate{old.issue(t, key, "")}, "it has 0 URIs"},
		"two URIs":                  {[]*x509.Certificate{change(func(c *x509.Certificate) { c.URIs = append(c.URIs, second) })}, "it has 2 URIs"},
		"another path":              {[]*x509.Certificate{old.issue(t, key, "spiffe://example.com/cart")}, "is not the SPIFFE ID of a ServiceAccount"},
		"expired":                   {[]*x509.Certificate{change(func(c *x509.Certificate) { c.NotAfter = then.Add(-time.Second) })}, "expired"},
		"not yet valid":             {[]*x509.Certificate{change(func(c *x509.Certificate) { c.NotBefore = then.Add(time.Second) })}, "not yet valid"},
		"for servers":               {[]*x509.Certificate{change(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}, "incompatible key usage"},
		"for nothing in particular": {[]*x509.Certificate{change(func(c *x509.Certificate) { c.ExtKeyUsage = nil })}, "it is not for clients"},
		"for anything":              {[]*x509.Certificate{change(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} })}, "it is not for clients"},
		"a CA":                      {[]*x509.Certificate{change(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })}, "it is a CA"},
		"the root itself":           {[]*x509.Certificate{old.cert}, "it is a CA"},
		"eight certificates":        {append([]*x509.Certificate{good}, slices.Repeat([]*x509.Certificate{cross}, 7)...), ""},
		"two CAs of one name":       {[]*x509.Certificate{byRenewed, cross, again}, "two of its CAs have the same name"},
		"the root beside its cross": {[]*x509.Certificate{byRenewed, cross, renewed.cert}, ""},
		"nine certificates":         {append([]*x509.Certificate{good}, slices.Repeat([]*x509.Certificate{cross}, 8)...), "9 certificates: must be at most 8"},
	} {
		who, err := roots.Caller(c.chain, then)
		if c.want == "" {
			require.NoError(t, err, name)
			assert.Equal(t, callerOf("shop", "cart"), who, name)
			continue
		}
		assert.ErrorContains(t, err, c.want, name)
		assert.Equal(t, proxy.Caller{Without: proxy.Unverified}, who, name)
	}
	who, err := roots.Caller(nil, then)
	require.Error(t, err)
	require.Equal(t, proxy.Caller{Without: proxy.NoCertificate}, who)

	both, err := proxy.ParseClientRoots(pemOf(old, renewed), someBytes)
	require.NoError(t, err)
	onlyNew, err := proxy.ParseClientRoots(pemOf(renewed), someBytes)
	require.NoError(t, err)
	for _, leaf := range []*x509.Certificate{good, byRenewed} {
		_, err = both.Caller([]*x509.Certificate{leaf}, then)
		require.NoError(t, err)
	}
	_, err = onlyNew.Caller([]*x509.Certificate{good}, then)
	require.Error(t, err)
	_, err = onlyNew.Caller([]*x509.Certificate{byRenewed}, then)
	require.NoError(t, err)
}

func TestClientRootsThatAreNotValid(t *testing.T) {
	servers, one, other := newAuthority(t, 1, pki.Constraints{PermittedDNS: []string{"svc"}}), newAuthority(t, 1, pki.ForClients("example.com")), newAuthority(t, 1, pki.ForClients("example.org"))
	for want, data := range map[string][]byte{
		"has no root of a CA for clients":      pemOf(servers),
		"no certificate":                       nil,
		"not PEM":                              []byte("garbage"),
		`has roots of trust domains "example.`: pemOf(one, other),
		"is not a CA":                          pki.EncodeCertificates(one.issue(t, newKey(t), cart)),
		"bytes":                                bytes.Repeat([]byte(" "), someBytes+1),
	} {
		roots, err := proxy.ParseClientRoots(data, someBytes)
		require.ErrorContains(t, err, want)
		require.Nil(t, roots)
	}
}

func TestParseIdentity(t *testing.T) {
	ca, key := newAuthority(t, 1, pki.ForClients("example.com")), newKey(t)
	older := newAuthority(t, 0, pki.ForClients("example.com"))
	cross, err := pki.NewCross(ca.cert, older.cert, older.key, then)
	require.NoError(t, err)
	leaf := ca.issue(t, key, cart)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	otherPEM, err := pki.EncodeKey(newKey(t))
	require.NoError(t, err)
	chain := pki.EncodeCertificates(leaf, cross)
	id, err := proxy.ParseIdentity(slices.Concat(keyPEM, chain))
	require.NoError(t, err)
	require.Equal(t, cart, id.ID.String())
	require.Equal(t, [][]byte{leaf.Raw, cross.Raw}, id.Certificate.Certificate)
	require.NoError(t, id.Expired(leaf.NotAfter))
	require.ErrorContains(t, id.Expired(leaf.NotAfter.Add(time.Second)), "has expired at 2026-03-01T13:00:00Z")

	for want, data := range map[string][]byte{
		"no PEM block in the private key":      nil,
		"no PEM block in the private key ":     []byte("garbage"),
		"no certificate":                       keyPEM,
		`PEM block is a "CERTIFICATE"`:         chain,
		`must be a "CERTIFICATE"`:              slices.Concat(keyPEM, keyPEM, chain),
		"is not that of the private key":       slices.Concat(otherPEM, chain),
		"is not that of the private key ":      slices.Concat(keyPEM, pki.EncodeCertificates(cross, leaf)),
		"the first certificate: it has 0 URIs": slices.Concat(keyPEM, pki.EncodeCertificates(ca.issue(t, key, ""))),
		"not PEM":                              slices.Concat(keyPEM, chain, []byte("garbage")),
		"damaged PEM":                          slices.Concat(keyPEM, chain[:len(chain)-40]),
		"text before the private key":          slices.Concat([]byte("garbage\n"), keyPEM, chain),
		"the private key is not valid PKCS #8": slices.Concat([]byte("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"), chain),
	} {
		id, err := proxy.ParseIdentity(data)
		require.ErrorContains(t, err, strings.TrimSpace(want))
		require.Nil(t, id)
		require.NotContains(t, err.Error(), strings.Split(string(keyPEM), "\n")[1])
	}
}

func TestPresent(t *testing.T) {
	ca, key := newAuthority(t, 1, pki.ForClients("example.com")), newKey(t)
	older := newAuthority(t, 0, pki.ForClients("example.com"))
	cross, err := pki.NewCross(ca.cert, older.cert, older.key, then)
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	id, err := proxy.ParseIdentity(slices.Concat(keyPEM, pki.EncodeCertificates(ca.issue(t, key, cart), cross)))
	require.NoError(t, err)
	foreign := newAuthority(t, 1, pki.ForClients("example.org"))
	for _, c := range []struct {
		name   string
		accept [][]byte
		scheme tls.SignatureScheme
		want   bool
	}{
		{"a server that names no CA", nil, tls.ECDSAWithP256AndSHA256, true},
		{"that names the CA", [][]byte{ca.cert.RawSubject}, tls.ECDSAWithP256AndSHA256, true},
		{"that names the one before", [][]byte{older.cert.RawSubject}, tls.ECDSAWithP256AndSHA256, true},
		{"that names others", [][]byte{foreign.cert.RawSubject}, tls.ECDSAWithP256AndSHA256, false},
		{"that does not know the algorithm", nil, tls.Ed25519, false},
	} {
		got, err := id.Present(&tls.CertificateRequestInfo{AcceptableCAs: c.accept, SignatureSchemes: []tls.SignatureScheme{c.scheme}, Version: tls.VersionTLS13})
		require.NoError(t, err)
		require.Equal(t, c.want, len(got.Certificate) > 0, c.name)
	}
}
