package signer

import (
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
)

// externalChain returns a scene whose Secret has a leaf of an intermediate, and these.
func externalChain(t *testing.T, change func(intermediate *x509.Certificate)) (w *scene, root *pki.Authority, intermediate *x509.Certificate) {
	root = foreignCA(t)
	between := foreignCA(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Intermediate"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: epoch.Add(-day), NotAfter: epoch.Add(2000 * day),
	}
	change(template)
	intermediate = signedBy(t, root, template, between.Key.Public())
	between.Certificate = intermediate
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	leaf := signedBy(t, between, &x509.Certificate{
		SerialNumber: big.NewInt(3), DNSNames: []string{"web.shop.svc"}, NotBefore: epoch, NotAfter: epoch.Add(1500 * day), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public())
	w, _ = externalScene(t)
	w.secret.Data = map[string][]byte{
		corev1.TLSCertKey: pki.EncodeCertificates(leaf, intermediate), corev1.TLSPrivateKeyKey: keyPEM, api.BundleKey: root.Bundle.PEM(),
	}
	return w, root, intermediate
}

// TestWhyNothingVerifies the chain of another issuer is in the condition.
func TestWhyNothingVerifies(t *testing.T) {
	for name, tt := range map[string]struct {
		template func(*x509.Certificate)
		change   func(data map[string][]byte, intermediate *x509.Certificate)
		want     string
	}{
		"no ca.crt":          {nil, func(d map[string][]byte, _ *x509.Certificate) { delete(d, api.BundleKey) }, "ca.crt holds no CA certificate"},
		"not PEM":            {nil, func(d map[string][]byte, _ *x509.Certificate) { d[api.BundleKey] = []byte("x") }, "ca.crt holds no CA certificate"},
		"ca.crt is the leaf": {nil, func(d map[string][]byte, i *x509.Certificate) { d[api.BundleKey] = leafOnly(d) }, "ca.crt holds no CA certificate"},
		"no root":            {nil, func(d map[string][]byte, i *x509.Certificate) { d[api.BundleKey] = pki.EncodeCertificates(i) }, "ca.crt holds no root, and an intermediate is not enough for every client"},
		"another root": {nil, func(d map[string][]byte, _ *x509.Certificate) { d[api.BundleKey] = testCA(t).Bundle.PEM() },
			`there is no certificate of "Example Corporation": an intermediate is missing in tls.crt, or ca.crt is of another CA`},
		"no intermediate": {nil, func(d map[string][]byte, _ *x509.Certificate) { d[corev1.TLSCertKey] = leafOnly(d) },
			`there is no certificate of "Intermediate": an intermediate is missing in tls.crt, or ca.crt is of another CA`},
		"the intermediate is in ca.crt": {nil, func(d map[string][]byte, i *x509.Certificate) {
			d[corev1.TLSCertKey], d[api.BundleKey] = leafOnly(d), append(d[api.BundleKey], pki.EncodeCertificates(i)...)
		}, `intermediate "Intermediate" is in ca.crt, and is missing in tls.crt`},
		"a root of the same name": {nil, func(d map[string][]byte, _ *x509.Certificate) { d[api.BundleKey] = foreignCA(t).Bundle.PEM() },
			"the root of that name in ca.crt has another key than the one that signed it"},
		"another reason": {func(i *x509.Certificate) {
			i.PermittedDNSDomainsCritical, i.PermittedDNSDomains = true, []string{"example.com"}
		}, func(map[string][]byte, *x509.Certificate) {},
			"x509: a root or intermediate certificate is not authorized to sign for this name"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.template == nil {
				tt.template = func(*x509.Certificate) {}
			}
			w, _, intermediate := externalChain(t, tt.template)
			tt.change(w.secret.Data, intermediate)
			_, ready := w.readyOf(ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, epoch))
			require.NotNil(t, ready)
			assert.Equal(t, "True External", string(ready.Status)+" "+ready.Reason)
			assert.Contains(t, ready.Message, string(TrustUnknown)+": "+tt.want)
			w.services[0].Status.Conditions = ready.Both()
			assert.Equal(t, name != "no ca.crt", state.ReadyOf(w.services[0]).Unverified, "clients may have another root if there is no ca.crt")
		})
	}
}

// TestWhatPodsHaveToSend with the leaf is in the state of Ready, where the rotator finds it, while clients accept the chain.
func TestWhatPodsHaveToSend(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(data map[string][]byte)
		now    time.Time
		want   bool
	}{
		"ca.crt verifies it":          {func(map[string][]byte) {}, epoch, true},
		"no root is known":            {func(d map[string][]byte) { delete(d, api.BundleKey) }, epoch, true},
		"the chain is not complete":   {func(d map[string][]byte) { d[corev1.TLSCertKey] = leafOnly(d) }, epoch, false},
		"it should have been renewed": {func(map[string][]byte) {}, epoch.Add(900 * day), true},
		"it has expired":              {func(map[string][]byte) {}, epoch.Add(1600 * day), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, intermediate := externalChain(t, func(*x509.Certificate) {})
			tt.change(w.secret.Data)
			w.now = tt.now
			_, ready := w.readyOf(w.readAgain(ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, epoch)))
			require.NotNil(t, ready)
			w.services[0].Status.Conditions = ready.Both()
			var want []string
			if tt.want {
				want = []string{pki.Links([]*x509.Certificate{intermediate}, epoch)}
			}
			assert.Equal(t, want, state.ReadyOf(w.services[0]).Chain)
		})
	}
}

// leafOnly returns the first certificate of tls.crt.
func leafOnly(data map[string][]byte) []byte {
	certs, _ := pki.ParseCertificates(data[corev1.TLSCertKey])
	return pki.EncodeCertificates(certs[0])
}

// TestTheRootHasExpired is reported as for any other certificate of the chain, whenever the Secret was read.
func TestTheRootHasExpired(t *testing.T) {
	w, root, _ := externalChain(t, func(*x509.Certificate) {})
	end := root.Certificate.NotAfter
	both, _, _ := externalChain(t, func(i *x509.Certificate) { i.NotAfter = end.Add(time.Minute) })
	both.now = end.Add(time.Hour)
	_, ready := both.readyOf(ExternalOf(both.secret, api.DefaultInstance, nil, both.ca.Bundle, both.now))
	assert.Equal(t, "False Expired", string(ready.Status)+" "+ready.Reason, "as the intermediate has")
	for _, read := range []time.Time{epoch, end.Add(time.Second), end.Add(time.Hour)} {
		w.now = end.Add(time.Hour)
		e := w.readAgain(ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, read))
		_, ready := w.readyOf(e)
		require.NotNil(t, ready)
		assert.Equal(t, "False Expired", string(ready.Status)+" "+ready.Reason, read)
		assert.Contains(t, ready.Message, "the root in ca.crt that verifies it expired at "+end.Format(time.RFC3339))
		assert.True(t, e.WriteBy(w.now).Before(w.now), "the alert counts it")
	}
	e := ExternalOf(w.secret, api.DefaultInstance, nil, root.Bundle, end.Add(time.Hour))
	assert.Equal(t, TrustUnknown, e.Trust, "another bundle is evaluated again")
	self := signedBy(t, root, &x509.Certificate{
		SerialNumber: big.NewInt(9), Subject: root.Certificate.Subject, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: epoch, NotAfter: end.Add(1000 * day),
	}, root.Key.Public())
	for name, in := range map[string]struct {
		ca     []byte
		bundle pki.Bundle
		want   Trust
	}{
		"renewed in ca.crt":     {append(root.Bundle.PEM(), pki.EncodeCertificates(self)...), w.ca.Bundle, TrustOwnCA},
		"renewed in the bundle": {root.Bundle.PEM(), pki.NewBundle(self), TrustBundle},
	} {
		w.secret.Data[api.BundleKey] = in.ca
		e := ExternalOf(w.secret, api.DefaultInstance, nil, in.bundle, end.Add(time.Hour))
		assert.Equal(t, in.want, e.Trust, name)
		problem, _ := e.problem(end.Add(time.Hour))
		assert.Empty(t, problem.Reason, name)
	}
}

// TestTheRootIsNotValidYet is reported until it is, and the Secret is then read again, although nothing has changed.
func TestTheRootIsNotValidYet(t *testing.T) {
	w, root, _ := externalChain(t, func(*x509.Certificate) {})
	begin := epoch.Add(time.Hour).Truncate(time.Second)
	later := signedBy(t, root, &x509.Certificate{
		SerialNumber: big.NewInt(9), Subject: root.Certificate.Subject, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: begin, NotAfter: epoch.Add(2000 * day),
	}, root.Key.Public())
	w.secret.Data[api.BundleKey] = pki.EncodeCertificates(later)
	e := ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, epoch)
	d, ready := w.readyOf(e)
	require.NotNil(t, ready)
	assert.Equal(t, "False NotYetValid", string(ready.Status)+" "+ready.Reason)
	assert.Contains(t, ready.Message, "the root in ca.crt that verifies it is not valid before "+begin.Format(time.RFC3339))
	assert.Equal(t, begin, d.NextAt)
	w.now = begin
	d, _ = w.readyOf(e)
	require.Equal(t, ReadLive, d.Action)
	d, ready = w.readyOf(w.readAgain(e))
	assert.Equal(t, Nothing, d.Action)
	require.NotNil(t, ready)
	assert.Equal(t, "True External", string(ready.Status)+" "+ready.Reason)
	assert.Contains(t, ready.Message, string(TrustOwnCA))
}

// TestAnExpiredRootOfAnotherKey is no cause: it has never verified the chain.
func TestAnExpiredRootOfAnotherKey(t *testing.T) {
	w, root, _ := externalChain(t, func(*x509.Certificate) {})
	w.secret.Data[api.BundleKey] = foreignCA(t).Bundle.PEM()
	w.now = root.Certificate.NotAfter.Add(time.Hour)
	_, ready := w.readyOf(ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, w.now))
	assert.Equal(t, string(reasonExternal), ready.Reason)
	assert.Contains(t, ready.Message, "has another key")
}
