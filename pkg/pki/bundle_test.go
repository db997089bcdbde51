package pki_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestBundleBytesDependOnContentAlone(t *testing.T) {
	var pool []*x509.Certificate
	for n := range 5 {
		key := newKey(t, pki.ECDSAP256)
		from := start.Add(time.Duration(n/2) * time.Hour) // some begin together
		root, err := pki.NewRoot(key, n+1, clusterOnly, from, from.Add(year))
		require.NoError(t, err)
		pool = append(pool, root)
	}
	rapid.Check(t, func(t *rapid.T) {
		certs := rapid.SliceOf(rapid.SampledFrom(pool)).Draw(t, "certificates")
		bundle := pki.NewBundle(certs...)

		again := rapid.Permutation(append(certs, certs...)).Draw(t, "again, twice, in another order")
		assert.Equal(t, bundle.PEM(), pki.NewBundle(again...).PEM())
		assert.Equal(t, bundle.Hash(), pki.NewBundle(again...).Hash())

		seen := map[string]bool{}
		for _, c := range certs {
			seen[string(c.Raw)] = true
		}
		assert.Len(t, bundle.Certificates(), len(seen), "each once and none lost")
		for _, c := range bundle.Certificates() {
			assert.True(t, seen[string(c.Raw)], "a certificate from nowhere")
		}
		if len(certs) == 0 {
			assert.Empty(t, bundle.PEM())
			return
		}
		parsed, err := pki.ParseBundle(bundle.PEM())
		require.NoError(t, err)
		assert.Equal(t, bundle.PEM(), parsed.PEM())
		less := pki.NewBundle(bundle.Certificates()[1:]...)
		assert.NotEqual(t, bundle.Hash(), less.Hash(), "other content, other hash")
	})
}

func TestNewBundleLeavesItsArgumentsAlone(t *testing.T) {
	a, b := newRoot(t, 1, clusterOnly).cert, newRoot(t, 2, clusterOnly).cert
	for _, certs := range [][]*x509.Certificate{{a, b, a}, {b, a, b}} {
		first, second := certs[0], certs[1]
		bundle := pki.NewBundle(certs...)
		assert.Same(t, first, certs[0])
		assert.Same(t, second, certs[1])
		bundle.Certificates()[0] = nil
		assert.NotNil(t, bundle.Certificates()[0])
	}
}

func TestUnexpired(t *testing.T) {
	short, long := newKey(t, pki.ECDSAP256), newKey(t, pki.ECDSAP256)
	a, err := pki.NewRoot(short, 1, clusterOnly, start, start.Add(time.Hour))
	require.NoError(t, err)
	b, err := pki.NewRoot(long, 2, clusterOnly, start, start.Add(2*time.Hour))
	require.NoError(t, err)
	bundle := pki.NewBundle(a, b)
	assert.Len(t, bundle.Unexpired(start.Add(time.Hour)).Certificates(), 2, "valid to its last second")
	assert.Equal(t, pki.NewBundle(b).PEM(), bundle.Unexpired(start.Add(time.Hour+time.Second)).PEM())
	assert.Empty(t, bundle.Unexpired(start.Add(3*time.Hour)).Certificates())
	assert.Len(t, bundle.Certificates(), 2, "the bundle itself stays")
}

func TestParseBundleRefusesWhatIsNoCA(t *testing.T) {
	root := newRoot(t, 1, clusterOnly)
	leaf := root.leaf(t, []string{"web.shop.svc"})
	_, err := pki.ParseBundle(pki.EncodeCertificates(root.cert, leaf))
	assert.ErrorContains(t, err, "certificate 2")
	assert.ErrorContains(t, err, "not a CA")
	_, err = pki.ParseBundle(nil)
	assert.ErrorContains(t, err, "CA bundle: no certificate")
}
