package signer

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

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

// TestTrustAfterANewBundle is decided again, since a root may have come or gone.
func TestTrustAfterANewBundle(t *testing.T) {
	w, e := externalScene(t)
	w.ca = testCA(t)
	_, ready := w.readyOf(e)
	assert.Equal(t, string(reasonExternal), ready.Reason, "what ca.crt verifies does not depend on it")
	e.Trust = TrustUnknown
	d, ready := w.readyOf(e)
	assert.Nil(t, ready)
	w.now = d.NextAt
	d, _ = w.readyOf(e)
	assert.Equal(t, ReadLive, d.Action)
	d, ready = w.readyOf(ExternalOf(w.secret, api.DefaultInstance, e, w.ca.Bundle, w.now))
	assert.Equal(t, Nothing, d.Action)
	assert.Equal(t, string(reasonExternal), ready.Reason)
}

// TestTrustWaitsForTheCA that is about to be known: the bundle may have the root.
func TestTrustWaitsForTheCA(t *testing.T) {
	w, e := externalScene(t)
	w.caErr = caError(reasonPending)
	d, ready := w.readyOf(e)
	assert.Nil(t, ready)
	assert.Equal(t, w.now.Add(CARetry), d.NextAt)
}

// TestWhatClientsDoNotAccept is not reported as well, although a server can load it.
func TestWhatClientsDoNotAccept(t *testing.T) {
	root, between := foreignCA(t), foreignCA(t)
	intermediate := signedBy(t, root, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Intermediate"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: epoch.Add(-day), NotAfter: epoch.Add(20 * day),
	}, between.Key.Public())
	between.Certificate = intermediate
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	usual, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	serverAuth := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for name, tt := range map[string]struct {
		key     crypto.Signer
		usage   x509.KeyUsage
		ext     []x509.ExtKeyUsage
		ca      []*x509.Certificate
		at      time.Time
		reason  Reason
		message string
	}{
		"all is well":                  {usual, x509.KeyUsageDigitalSignature, serverAuth, []*x509.Certificate{root.Certificate}, epoch, reasonExternal, string(TrustOwnCA)},
		"no usage":                     {usual, 0, nil, []*x509.Certificate{root.Certificate}, epoch, reasonExternal, string(TrustOwnCA)},
		"ca.crt has no root":           {usual, x509.KeyUsageDigitalSignature, serverAuth, []*x509.Certificate{intermediate}, epoch, reasonExternal, string(TrustUnknown)},
		"any extended key usage":       {usual, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, nil, epoch, reasonWrongUsage, "serverAuth"},
		"the usages of a CA":           {usual, x509.KeyUsageCertSign, serverAuth, nil, epoch, reasonWrongUsage, "digitalSignature"},
		"a small key":                  {small, x509.KeyUsageDigitalSignature, serverAuth, nil, epoch, reasonWrongUsage, "1024 bits: must have at least 2048"},
		"the intermediate ends soon":   {usual, x509.KeyUsageDigitalSignature, serverAuth, []*x509.Certificate{root.Certificate}, epoch.Add(13 * day), reasonOverdue, "should have renewed it"},
		"the intermediate has ended":   {usual, x509.KeyUsageDigitalSignature, serverAuth, []*x509.Certificate{root.Certificate}, epoch.Add(20 * day), reasonExpired, "a certificate of its chain expired"},
		"it has, and no root is known": {usual, x509.KeyUsageDigitalSignature, serverAuth, nil, epoch.Add(20 * day), reasonExpired, "a certificate of its chain expired"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := externalScene(t)
			leaf := signedBy(t, between, &x509.Certificate{
				SerialNumber: big.NewInt(3), DNSNames: []string{"web.shop.svc"}, NotBefore: epoch, NotAfter: epoch.Add(70 * day), KeyUsage: tt.usage, ExtKeyUsage: tt.ext,
			}, tt.key.Public())
			keyPEM, err := pki.EncodeKey(tt.key)
			require.NoError(t, err)
			w.secret.Data = map[string][]byte{
				corev1.TLSCertKey: pki.EncodeCertificates(leaf, intermediate), corev1.TLSPrivateKeyKey: keyPEM, api.BundleKey: pki.EncodeCertificates(tt.ca...),
			}
			w.now = tt.at
			for _, read := range []time.Time{epoch, tt.at} {
				e := w.readAgain(ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, read))
				_, ready := w.readyOf(e)
				require.NotNil(t, ready)
				assert.Equal(t, string(tt.reason), ready.Reason, "read at %s", read)
				assert.Contains(t, ready.Message, tt.message)
				if tt.reason == reasonWrongUsage {
					assert.Equal(t, read, e.WriteBy(w.now))
				}
			}
		})
	}
}

// TestTheTemporaryCertificateOfCertManager, of a CA that nobody has, with the key that the certificate will have, is followed until
// that is there.
func TestTheTemporaryCertificateOfCertManager(t *testing.T) {
	w, _ := externalScene(t)
	theirs, local := foreignCA(t), foreignCA(t)
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	leafBy := func(ca *pki.Authority) *x509.Certificate {
		return signedBy(t, ca, &x509.Certificate{SerialNumber: big.NewInt(3), DNSNames: []string{"web.shop.svc"}, NotBefore: epoch, NotAfter: epoch.Add(90 * day)}, key.Public())
	}
	temporary, issued := leafBy(local), leafBy(theirs)
	w.secret.Data = map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(temporary), corev1.TLSPrivateKeyKey: keyPEM}
	e := ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, epoch)
	_, first := w.readyOf(e)
	w.secret.Data[corev1.TLSCertKey], w.secret.Data[api.BundleKey] = pki.EncodeCertificates(issued), theirs.Bundle.PEM()
	w.secret.ResourceVersion, w.now = "101", epoch.Add(externalInterval)
	_, second := w.readyOf(w.readAgain(e))
	for _, said := range []struct {
		ready *state.Condition
		leaf  *x509.Certificate
		trust Trust
	}{{first, temporary, TrustUnknown}, {second, issued, TrustOwnCA}} {
		require.NotNil(t, said.ready)
		assert.Equal(t, "True External", string(said.ready.Status)+" "+said.ready.Reason)
		assert.Contains(t, said.ready.State, pki.Fingerprint(said.leaf))
		assert.NotContains(t, said.ready.State, "unverified")
		assert.Contains(t, said.ready.Message, string(said.trust))
	}
}

// TestAChainThatBeginsLater is reported until then.
func TestAChainThatBeginsLater(t *testing.T) {
	w, e := externalScene(t)
	e.NotBefore = epoch.Add(time.Hour)
	d, ready := w.readyOf(e)
	assert.Equal(t, string(reasonNotYetValid), ready.Reason)
	assert.Contains(t, ready.Message, "a certificate of its chain is not valid before "+e.NotBefore.Format(time.RFC3339))
	assert.Equal(t, e.NotBefore, d.NextAt)
	assert.Equal(t, e.At, e.WriteBy(w.now), "the alert counts it")
	w.now = e.NotBefore
	assert.Equal(t, e.RenewBy(), e.WriteBy(w.now))
	_, ready = w.readyOf(e)
	assert.Equal(t, string(reasonExternal), ready.Reason)
}

func signedBy(t *testing.T, ca *pki.Authority, template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	t.Helper()
	return signertest.Certify(t, template, ca.Certificate, public, ca.Key)
}
