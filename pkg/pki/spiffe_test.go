package pki_test

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

var cart = pki.SPIFFEID{TrustDomain: "example.com", Namespace: "shop", ServiceAccount: "cart"}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	uri, err := url.Parse(text)
	require.NoError(t, err)
	return uri
}

func TestParseSPIFFEID(t *testing.T) {
	id, ok := pki.ParseSPIFFEID(mustParse(t, "spiffe://example.com/ns/shop/sa/cart"))
	require.True(t, ok)
	assert.Equal(t, cart, id)
	longest := "spiffe://example.com/ns/" + strings.Repeat("n", 63) + "/sa/" + strings.Repeat("a", 253)
	id, ok = pki.ParseSPIFFEID(mustParse(t, longest))
	require.True(t, ok)
	assert.Equal(t, longest, id.String())
	for _, text := range []string{
		longest + "a",
		strings.Replace(longest, "/ns/", "/ns/n", 1),
		"https://example.com/ns/shop/sa/cart",
		"spiffe://example.com/ns/shop/sa/cart/",
		"spiffe://example.com/ns/shop/sa/cart?x=y",
		"spiffe://example.com/ns/shop/sa/cart#x",
		"spiffe://example.com:8443/ns/shop/sa/cart/x",
		"spiffe://root@example.com/ns/shop/sa/cart",
		"spiffe://example.com/ns/shop/sa/c%61rt",
		"spiffe://example.com/ns/sh/op/sa/cart",
		"spiffe://example.com/ns//sa/cart",
		"spiffe://example.com//ns/shop/sa/cart",
		"spiffe://example.com/ns/shop/sa/*",
		"spiffe://example.com/shop/cart",
	} {
		_, ok := pki.ParseSPIFFEID(mustParse(t, text))
		assert.False(t, ok, text)
	}
}

func TestCheckTrustDomain(t *testing.T) {
	for _, name := range []string{"cluster.local", "prod", "a-1.example.com", "10.example", strings.Repeat("a", 63) + ".b", strings.Repeat("a.", 112) + "aa"} {
		assert.NoError(t, pki.CheckTrustDomain(name), name)
	}
	for _, name := range []string{"", "Example.com", "a_b", ".a", "a.", "a..b", "-a", "10.0.0.1", "invalid", "a/b", "spiffe://a", strings.Repeat("a", 64), "b." + strings.Repeat("a", 64) + ".c", strings.Repeat("a.", 113) + "a"} {
		assert.Error(t, pki.CheckTrustDomain(name), name)
	}
}

// identity returns a client's certificate with the URIs.
func (a authority) identity(t *testing.T, uris ...string) *x509.Certificate {
	t.Helper()
	return a.leafWith(t, nil, func(template *x509.Certificate) {
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		for _, uri := range uris {
			template.URIs = append(template.URIs, mustParse(t, uri))
		}
	})
}

func TestClientCA(t *testing.T) {
	root := newRoot(t, 3, pki.ForClients("example.com"))
	assert.Regexp(t, `^CN=servingcert client CA 3 [0-9a-f]{8}$`, root.cert.Subject.String())
	assert.Equal(t, "example.com", pki.TrustDomainOf(root.cert))
	assert.Equal(t, pki.ForClients("example.com"), pki.ConstraintsOf(root.cert))
	serving := newRoot(t, 3, clusterOnly)
	assert.Empty(t, pki.TrustDomainOf(serving.cert))

	leaf := root.identity(t, cart.String())
	require.NoError(t, pki.VerifyClient(leaf, nil, root.cert, start))
	require.NoError(t, pki.CheckIdentity(leaf, pki.ECDSAP256, cart))
	found, err := pki.IdentityOf(leaf)
	require.NoError(t, err)
	assert.Equal(t, cart, found)

	assert.Error(t, pki.VerifyServing(leaf, nil, root.cert, start), "it serves nothing")
	assert.Error(t, pki.VerifyClient(root.identity(t, "spiffe://other.com/ns/shop/sa/cart"), nil, root.cert, start), "another trust domain")
	assert.Error(t, pki.VerifyServing(root.leaf(t, []string{"web.shop.svc"}), nil, root.cert, start), "a serving certificate of the CA for clients")
	assert.Error(t, pki.VerifyClient(serving.identity(t, cart.String()), nil, serving.cert, start), "an identity of the serving CA")
}

func TestCheckIdentity(t *testing.T) {
	root := newRoot(t, 1, pki.ForClients("example.com"))
	for want, leaf := range map[string]*x509.Certificate{
		"its identity is spiffe://example.com/ns/shop/sa/other": root.identity(t, "spiffe://example.com/ns/shop/sa/other"),
		"it has 2 URIs":     root.identity(t, cart.String(), "spiffe://example.com/ns/shop/sa/other"),
		"it has 0 URIs":     root.identity(t),
		"is not the SPIFFE": root.identity(t, "spiffe://example.com/cart"),
		"must be clientAuth only": root.leafWith(t, nil, func(template *x509.Certificate) {
			template.URIs = []*url.URL{mustParse(t, cart.String())}
		}),
		"no URI: dNSName": root.leafWith(t, []string{"cart"}, func(template *x509.Certificate) {
			template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			template.URIs = []*url.URL{mustParse(t, cart.String())}
		}),
	} {
		assert.ErrorContains(t, pki.CheckIdentity(leaf, pki.ECDSAP256, cart), want)
	}
}
