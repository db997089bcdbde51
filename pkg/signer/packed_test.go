package signer

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"math/big"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

// drawManaged draws a Secret with anything in it that facts are remembered of.
func drawManaged(t *rapid.T, pairs []issue.Issued) *corev1.Secret {
	word := rapid.SampledFrom([]string{"", "a", "web", "servingcert.dev/x"})
	issued := rapid.SampledFrom(pairs).Draw(t, "pair")
	secret := managed(issued, service("web"))
	secret.UID = types.UID(word.Draw(t, "uid"))
	secret.ResourceVersion = word.Draw(t, "version")
	secret.Type = rapid.SampledFrom([]corev1.SecretType{corev1.SecretTypeTLS, corev1.SecretTypeOpaque}).Draw(t, "type")
	if rapid.Bool().Draw(t, "unlabelled") {
		secret.Labels = nil
	}
	if rapid.Bool().Draw(t, "immutable") {
		secret.Immutable = new(true)
	}
	if rapid.Bool().Draw(t, "deleted") {
		secret.DeletionTimestamp = new(metav1.Unix(rapid.Int64Range(1, 4e9).Draw(t, "when"), 0))
		secret.Finalizers = rapid.SliceOfN(word, 0, 6).Draw(t, "finalizers")
	}
	secret.Annotations = rapid.MapOf(rapid.SampledFrom(append([]string{"other"}, secretAnnotations...)), word).Draw(t, "annotations")
	for range rapid.IntRange(0, 3).Draw(t, "owners") {
		r := metav1.OwnerReference{APIVersion: "v1", Kind: rapid.SampledFrom([]string{"Service", "Pod"}).Draw(t, "kind"), Name: "n", UID: types.UID(word.Draw(t, "uid of owner"))}
		if rapid.Bool().Draw(t, "controller") {
			r.Controller, r.BlockOwnerDeletion = new(rapid.Bool().Draw(t, "is")), new(rapid.Bool().Draw(t, "blocks"))
		}
		secret.OwnerReferences = append(secret.OwnerReferences, r)
	}
	for key, value := range rapid.MapOf(rapid.SampledFrom([]string{"ca.crt", "b", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, api.CombinedKey}), rapid.SliceOfN(rapid.Byte(), 0, 9)).Draw(t, "data") {
		secret.Data[key] = value
	}
	if rapid.Bool().Draw(t, "combined") {
		withCombined(secret)
	}
	return secret
}

// TestPackedFactsAreTheFacts: what comes out of a cache is what went in.
func TestPackedFactsAreTheFacts(t *testing.T) {
	ca, web := testCA(t), service("web")
	wanted := wantedBy(web)
	good, other := issueBy(t, ca, wanted, epoch), issueBy(t, newCA(t, api.DefaultLimits().Constraints(), epoch.Add(-day), epoch.Add(1000*day)), wanted, epoch)
	certPEM, keyPEM := selfSigned(t, "a.example.com")
	withIPs := withAddresses(t, ca)
	pairs := []issue.Issued{{}, good, other, withIPs, {CertPEM: certPEM, KeyPEM: keyPEM}, {CertPEM: good.CertPEM, KeyPEM: other.KeyPEM}}
	rapid.Check(t, func(t *rapid.T) {
		want := FactsOf(drawManaged(t, pairs), api.DefaultInstance)
		if rapid.Bool().Draw(t, "reduced") {
			want = want.Reduce()
			require.LessOrEqual(t, len(want.Pack().facts), 1<<10)
		}
		got := want.Pack().Unpack()
		if want.Leaf.Usages != nil {
			require.EqualError(t, got.Leaf.Usages, want.Leaf.Usages.Error())
			got.Leaf.Usages = want.Leaf.Usages
		}
		require.Same(t, want.verified, got.verified)
		require.Equal(t, emptyIsNone(want), emptyIsNone(got))
	})
}

// emptyIsNone makes an empty map or list none, which means the same everywhere.
func emptyIsNone(f *SecretFacts) *SecretFacts {
	if len(f.Annotations) == 0 {
		f.Annotations = nil
	}
	if len(f.Finalizers) == 0 {
		f.Finalizers = nil
	}
	return f
}

// withAddresses is a pair with an address of each kind.
func withAddresses(t require.TestingT, ca *pki.Authority) issue.Issued {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		DNSNames: []string{"web.shop.svc"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1), net.ParseIP("fd00::1")},
		NotBefore: epoch, NotAfter: epoch.Add(time.Hour), SerialNumber: ca.Certificate.SerialNumber,
		KeyUsage: x509.KeyUsageCertSign, // a wrong one
	}
	der, err := x509.CreateCertificate(nil, leaf, ca.Certificate, key.Public(), ca.Key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	return issue.Issued{Leaf: cert, CertPEM: pki.EncodeCertificates(cert), KeyPEM: keyPEM}
}

// TestEveryFactIsPacked: a field that is new has to be packed, or to follow from others.
func TestEveryFactIsPacked(t *testing.T) {
	for of, want := range map[reflect.Type]int{reflect.TypeFor[SecretFacts](): 15, reflect.TypeFor[LeafFacts](): 12} {
		assert.Equal(t, want, of.NumField(), "%s: add the field to Pack, Unpack and drawManaged", of)
	}
}

// TestALeafIsDroppedOnceItsSignerIsKnown: the bytes of a certificate are kept no longer than
// it takes to find out who signed it, and the answer under any other Authority is that which
// the bytes would give.
func TestALeafIsDroppedOnceItsSignerIsKnown(t *testing.T) {
	l := generations(t, 3)
	first, second, third := l.At(epoch, 1), l.At(epoch, 2), l.At(epoch, 3)
	foreign := testCA(t)
	f := FactsOf(managed(issueBy(t, second, wantedBy(service("web")), epoch), service("web")), api.DefaultInstance)
	raw := f.verified.Load().raw
	require.Equal(t, f.Leaf.Sum, sha256.Sum256(raw))
	for range 3 { // again and again, and in another order than time
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

// TestSignsAs: a CA signs as another if a signature of the one is good for the other.
func TestSignsAs(t *testing.T) {
	ca := testCA(t)
	again := func(change func(*x509.Certificate)) *x509.Certificate {
		template := *ca.Certificate
		template.SerialNumber = big.NewInt(77)
		change(&template)
		der, err := x509.CreateCertificate(nil, &template, &template, ca.Key.Public(), ca.Key)
		require.NoError(t, err)
		cert, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return cert
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

// BenchmarkPacked is what it costs to read a Secret of the cache.
func BenchmarkPacked(b *testing.B) {
	web := service("web")
	packed := FactsOf(managed(issueBy(b, testCA(b), wantedBy(web), epoch), web), api.DefaultInstance).Pack()
	b.ReportMetric(float64(len(packed.facts)), "B/Secret")
	for b.Loop() {
		packed.Unpack()
	}
}

// TestPackedServicesAreTheServices: whatever is kept of a Service comes out as it went in.
func TestPackedServicesAreTheServices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		svc := signertest.DrawService(t, "web")
		svc.ResourceVersion = "7"
		svc.CreationTimestamp = metav1.Unix(1e9, 0)
		if svc.DeletionTimestamp != nil { // the API server counts in seconds
			svc.DeletionTimestamp = new(metav1.Unix(2e9, 0))
		}
		if rapid.Bool().Draw(t, "ready") {
			svc.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", Message: "m", LastTransitionTime: metav1.Unix(3e9, 0)}}
		}
		want := api.StripService(svc, Keep(svc))
		got := PackService(want).Unpack()
		require.True(t, equality.Semantic.DeepEqual(want, got), "%v, must be %v", got, want)
		require.Equal(t, PackService(want), PackService(got), "equal Services are equal bytes")
	})
}
