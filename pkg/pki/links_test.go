package pki_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// TestLinkedBy: what a server sends is enough if it has one path from its leaf to a root that clients have. Programs leave
// out roots and certificates that are not needed, send others, and change the order.
func TestLinkedBy(t *testing.T) {
	a, b := newRoot(t, 1, clusterOnly), newRoot(t, 2, clusterOnly)
	upper, lower := newKey(t, pki.ECDSAP256), newKey(t, pki.ECDSAP256)
	certify := func(name string, key crypto.Signer, by authority, lasts time.Duration) *x509.Certificate {
		serial, err := pki.NewSerial()
		require.NoError(t, err)
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
			NotBefore: start, NotAfter: start.Add(lasts),
		}, by.cert, key.Public(), by.key)
		require.NoError(t, err)
		cert, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return cert
	}
	upperByA, upperByB := certify("Upper", upper, a, 100*day), certify("Upper", upper, b, 100*day)
	lowerOne := certify("Lower", lower, authority{cert: upperByA, key: upper}, 100*day)
	renewed := certify("Lower", lower, authority{cert: upperByA, key: upper}, 200*day)
	leaf := authority{cert: lowerOne, key: lower}.leaf(t, []string{"web.shop.svc"})
	type chain = []*x509.Certificate
	roots := func(all ...*x509.Certificate) []*x509.CertPool { return []*x509.CertPool{pki.PoolOf(all)} }
	for name, tt := range map[string]struct {
		roots []*x509.CertPool
		has   chain // in the Secret
		sent  chain
		after time.Duration
		want  bool
	}{
		"the same":                         {roots(a.cert), chain{lowerOne, upperByA}, chain{lowerOne, upperByA}, day, true},
		"in another order":                 {roots(a.cert), chain{lowerOne, upperByA}, chain{upperByA, lowerOne}, day, true},
		"without the root":                 {roots(a.cert), chain{lowerOne, upperByA, a.cert}, chain{lowerOne, upperByA}, day, true},
		"with the root":                    {roots(a.cert), chain{lowerOne, upperByA}, chain{lowerOne, upperByA, a.cert}, day, true},
		"with others":                      {roots(a.cert), chain{lowerOne, upperByA}, chain{b.cert, upperByB, lowerOne, upperByA}, day, true},
		"without one that is not needed":   {roots(a.cert), chain{lowerOne, upperByA, upperByB}, chain{lowerOne, upperByA}, day, true},
		"one of two paths":                 {roots(a.cert, b.cert), chain{lowerOne, upperByA, upperByB}, chain{lowerOne, upperByB}, day, true},
		"a renewed intermediate":           {roots(a.cert), chain{renewed, upperByA}, chain{lowerOne, upperByA}, day, true},
		"nothing is needed":                {roots(lowerOne), chain{lowerOne}, nil, day, true},
		"the leaf is trusted itself":       {roots(leaf), nil, nil, day, true},
		"the leaf alone":                   {roots(a.cert), chain{lowerOne, upperByA}, nil, day, false},
		"without the upper one":            {roots(a.cert), chain{lowerOne, upperByA}, chain{lowerOne, a.cert}, day, false},
		"an upper one of another root":     {roots(a.cert), chain{lowerOne, upperByA}, chain{lowerOne, upperByB}, day, false},
		"one that was renewed, and ended":  {roots(a.cert), chain{renewed, certify("Upper", upper, a, 200*day)}, chain{lowerOne, upperByA}, 150 * day, false},
		"no root is known":                 {nil, chain{lowerOne, upperByA}, chain{lowerOne}, day, true},
		"no root is known, the leaf alone": {nil, chain{lowerOne, upperByA}, nil, day, false},
		"no root is known, nor an issuer":  {nil, chain{upperByA}, nil, day, true},
		"all has ended":                    {roots(a.cert), chain{lowerOne, upperByA}, chain{lowerOne, upperByA}, 150 * day, true},
	} {
		t.Run(name, func(t *testing.T) {
			at := start.Add(tt.after)
			served := leaf
			if tt.after > 30*day { // the leaf is still valid
				served = authority{cert: lowerOne, key: lower}.leafWith(t, []string{"web.shop.svc"}, func(c *x509.Certificate) { c.NotAfter = start.Add(180 * day) })
			}
			v, _ := pki.VerifiedBy(tt.roots, served, tt.has, at)
			assert.Equal(t, tt.want, pki.LinkedBy(pki.Links(tt.sent, at), v.Paths), "%v", v.Paths)
			assert.True(t, pki.LinkedBy(pki.Links(tt.has, at), v.Paths), "the Secret's own chain")
		})
	}
}

// TestLinksAreFew, whatever a server sends.
func TestLinksAreFew(t *testing.T) {
	root := newRoot(t, 1, clusterOnly)
	one := authority{cert: root.cert, key: root.key}.leaf(t, []string{"web.shop.svc"})
	links := pki.Links(slices.Repeat([]*x509.Certificate{one}, 1000), start)
	assert.Len(t, strings.Split(links, "."), 16)
	assert.Empty(t, pki.Links([]*x509.Certificate{root.cert}, start), "a root has none")
}
