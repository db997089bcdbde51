package signer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

func TestFactsOfAGoodSecret(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	secret := managed(issued, web)
	secret.Data["ca.crt"], secret.Data["b"] = []byte("x"), []byte("y")
	secret.Annotations = map[string]string{"anything": "goes"}

	f := FactsOf(secret, api.DefaultInstance)
	assert.Equal(t, metav1.ObjectMeta{
		Namespace: "shop", Name: "web-tls", UID: "uid-of-secret", ResourceVersion: "100",
		OwnerReferences: ownerReferences(nil, []*corev1.Service{web}),
	}, f.ObjectMeta, "no labels, no annotations: they may be large, and nothing is decided from them")
	assert.True(t, f.Labelled)
	assert.True(t, f.OwnedBy(web.UID))
	assert.Equal(t, corev1.SecretTypeTLS, f.Type)
	assert.False(t, f.Immutable)
	assert.False(t, f.Empty)
	assert.Equal(t, []string{"b", "ca.crt"}, f.Other)
	assert.Empty(t, f.Defect)
	assert.Equal(t, LeafFacts{
		Sum: sha256.Sum256(issued.Leaf.Raw), Fingerprint: pki.Fingerprint(issued.Leaf),
		DNSNames: []string{"web.shop.svc", "web.shop.svc.cluster.local"}, KeyAlgorithm: pki.ECDSAP256,
		NotBefore: time.Date(2026, 3, 1, 11, 55, 0, 0, time.UTC), NotAfter: time.Date(2026, 3, 31, 11, 55, 0, 0, time.UTC),
		IssuedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), RenewAt: pki.RenewAt(issued.Leaf), Chain: chainDigest(nil),
	}, f.Leaf)
	assert.Equal(t, &ca.Issuer, f.SignedBy(ca))
	assert.False(t, FactsOf(secret, "another").Labelled, "the label is another instance's")
}

func TestFactsOfDamage(t *testing.T) {
	ca, web := testCA(t), service("web")
	good, other := issueBy(t, ca, wantedBy(web), epoch), issueBy(t, ca, wantedBy(web), epoch)
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	keyBlock, _ := pem.Decode(good.KeyPEM)
	for name, c := range map[string]struct {
		cert, key []byte
		defect    Reason
		detail    string
		empty     bool
	}{
		"nothing":                          {nil, nil, reasonKeyMissing, "no data under tls.crt", true},
		"empty values":                     {[]byte{}, []byte{}, reasonKeyMissing, "no data under tls.crt", true},
		"no certificate":                   {nil, good.KeyPEM, reasonKeyMissing, "no data under tls.crt", false},
		"no key":                           {good.CertPEM, nil, reasonKeyMissing, "no data under tls.key", false},
		"blanks for a certificate":         {[]byte(" \n"), good.KeyPEM, reasonGarbage, "tls.crt: no certificate", false},
		"text for a certificate":           {[]byte("hello"), good.KeyPEM, reasonGarbage, "tls.crt: certificate 1: not PEM", false},
		"PEM without an end":               {good.CertPEM[:len(good.CertPEM)-30], good.KeyPEM, reasonGarbage, "tls.crt: certificate 1: damaged PEM", false},
		"text after the certificate":       {append(bytes.Clone(good.CertPEM), "# web"...), good.KeyPEM, reasonGarbage, "tls.crt: certificate 2: not PEM", false},
		"key in the certificate's place":   {good.KeyPEM, good.KeyPEM, reasonGarbage, `tls.crt: certificate 1: PEM block is a "PRIVATE KEY", must be a "CERTIFICATE"`, false},
		"key after the certificate":        {append(bytes.Clone(good.CertPEM), good.KeyPEM...), good.KeyPEM, reasonGarbage, "tls.crt: certificate 2: PEM block is", false},
		"certificate of other bytes":       {block("CERTIFICATE", []byte("bytes")), good.KeyPEM, reasonGarbage, "tls.crt: certificate 1: x509: malformed certificate", false},
		"text for a key":                   {good.CertPEM, []byte("hello"), reasonGarbage, "tls.key: no PEM block in the private key", false},
		"certificate in the key's place":   {good.CertPEM, good.CertPEM, reasonGarbage, `tls.key: PEM block is a "CERTIFICATE", must be a "PRIVATE KEY" (PKCS #8)`, false},
		"key in a form OpenSSL may refuse": {good.CertPEM, block("EC PRIVATE KEY", keyBlock.Bytes), reasonGarbage, `tls.key: PEM block is a "EC PRIVATE KEY"`, false},
		"key of other bytes":               {good.CertPEM, block("PRIVATE KEY", []byte("bytes")), reasonGarbage, "tls.key: the private key is not valid PKCS #8", false},
		"two keys":                         {good.CertPEM, append(bytes.Clone(good.KeyPEM), other.KeyPEM...), reasonGarbage, "tls.key: data after the private key", false},
		"key of another certificate":       {good.CertPEM, other.KeyPEM, reasonMismatch, "tls.key does not match the certificate", false},
	} {
		t.Run(name, func(t *testing.T) {
			secret := managed(issue.Issued{CertPEM: c.cert, KeyPEM: c.key}, web)
			f := FactsOf(secret, api.DefaultInstance)
			assert.Equal(t, c.defect, f.Defect)
			assert.Contains(t, f.Detail, c.detail)
			assert.Equal(t, c.empty, f.Empty)
			assert.False(t, f.usable(epoch))
		})
	}
}

func TestSignedByVerifiesTheSignature(t *testing.T) {
	ca, next, web := testCA(t), testCA(t), service("web")
	forged := forge(t, ca)
	succeeded := &pki.Authority{Issuer: next.Issuer, Older: []pki.Issuer{ca.Issuer}, Key: next.Key, Bundle: pki.NewBundle(ca.Certificate, next.Certificate)}
	factsUnder := func(by *pki.Authority) *SecretFacts {
		return FactsOf(managed(issueBy(t, by, wantedBy(web), epoch), web), api.DefaultInstance)
	}
	assert.Nil(t, factsUnder(forged).SignedBy(ca), "issuer and key id are right, the signature is not")
	assert.Nil(t, factsUnder(next).SignedBy(ca))
	assert.Nil(t, FactsOf(managed(issue.Issued{}, web), api.DefaultInstance).SignedBy(ca))

	f := factsUnder(ca)
	assert.Equal(t, &ca.Issuer, f.SignedBy(ca))
	assert.Nil(t, f.SignedBy(next), "the answer is remembered for the CA that was asked about, and no other")
	assert.Equal(t, &succeeded.Older[0], f.SignedBy(succeeded), "an earlier issuer is known too")
	assert.Equal(t, &ca.Issuer, f.SignedBy(ca))
}

// Invariant 9: the facts of a Secret, which the informer keeps, contain and reference no private
// key.
func TestInvariant9FactsHoldNoPrivateKey(t *testing.T) {
	ca, web := testCA(t), service("web")
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.Ed25519, pki.RSA2048} {
		wanted := wantedBy(web)
		wanted.Params.KeyAlgorithm = algorithm
		good, other := issueBy(t, ca, wanted, epoch), issueBy(t, ca, wanted, epoch)
		for name, issued := range map[string]issue.Issued{
			"good":        good,
			"mismatch":    {CertPEM: other.CertPEM, KeyPEM: good.KeyPEM},
			"swapped":     {CertPEM: good.KeyPEM, KeyPEM: good.CertPEM},
			"two keys":    {CertPEM: good.CertPEM, KeyPEM: append(bytes.Clone(good.KeyPEM), good.KeyPEM...)},
			"key in both": {CertPEM: append(bytes.Clone(good.CertPEM), good.KeyPEM...), KeyPEM: good.KeyPEM},
		} {
			secret := managed(issued, web)
			secret.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(good.KeyPEM)}
			secret.Data["copy"] = good.KeyPEM
			e := ExternalOf(secret, api.DefaultInstance, nil, ca.Bundle, epoch)
			followed := newScene(ca, secret, service("web", api.AnnotationIssuer, string(api.IssuerExternal)))
			followed.now = epoch.Add(externalGrace)
			_, ready := followed.readyOf(e)
			require.NotNil(t, ready)
			for _, v := range []any{FactsOf(secret, api.DefaultInstance), e, ready} {
				everything := everythingIn(reflect.ValueOf(v), map[uintptr]bool{})
				require.Contains(t, everything, "web-tls", "the walk sees the facts")
				for _, piece := range piecesOf(t, good.KeyPEM) {
					require.NotContains(t, everything, piece, "%s, %s", algorithm, name)
				}
			}
		}
	}
}

// BenchmarkFacts measures FactsOf, which runs for each Secret that the informer receives.
func BenchmarkFacts(b *testing.B) {
	web := service("web")
	secret := managed(issueBy(b, testCA(b), wantedBy(web), epoch), web)
	for b.Loop() {
		FactsOf(secret, "servingcert")
	}
}

func TestPlausible(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	headless := service("db")
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	assert.True(t, Plausible(managed(issued), api.DefaultInstance))
	assert.True(t, Plausible(managed(issueBy(t, ca, wantedBy(headless), epoch)), api.DefaultInstance))
	caKey, err := pki.EncodeKey(ca.Key)
	assert.NoError(t, err)
	for name, change := range map[string]func(s *corev1.Secret){
		"no label":          func(s *corev1.Secret) { s.Labels = nil },
		"another instance":  func(s *corev1.Secret) { s.Labels[api.LabelManagedBy] = "another" },
		"another type":      func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"empty":             func(s *corev1.Secret) { s.Data = nil },
		"garbage":           func(s *corev1.Secret) { s.Data[corev1.TLSCertKey] = []byte("x") },
		"no key":            func(s *corev1.Secret) { delete(s.Data, corev1.TLSPrivateKeyKey) },
		"another namespace": func(s *corev1.Secret) { s.Namespace = "bank" },
		"a CA": func(s *corev1.Secret) {
			s.Data = map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(ca.Certificate), corev1.TLSPrivateKeyKey: caKey}
		},
	} {
		t.Run(name, func(t *testing.T) {
			secret := managed(issued)
			change(secret)
			assert.False(t, Plausible(secret, api.DefaultInstance))
		})
	}
}

func TestServiceOwnersAreServicesAlone(t *testing.T) {
	web := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: "1"}
	f := &SecretFacts{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "web", UID: "2"},
		web,
		{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: "web", UID: "3"},
	}}}
	assert.Equal(t, []metav1.OwnerReference{web}, f.ServiceOwners())
	assert.Len(t, f.OwnerReferences, 3, "the facts are unchanged")
}

// TestFactsAreNotChanged: caches return the facts themselves, which every decision shares.
func TestFactsAreNotChanged(t *testing.T) {
	world := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		w.openShift = seldom(t, 3, "OpenShift")
		s := w.situation()
		before := *w
		before.services = nil
		for _, svc := range w.services {
			before.services = append(before.services, svc.DeepCopy())
		}
		want := before.situation()
		d := Decide(s, OwnershipOf(s))
		conditions(s, d)
		switch d.Action {
		case Create, Reissue, Replace:
			issued, err := issue.Issue(context.Background(), plainSign(), s.Authority, d.Wanted, w.now)
			require.NoError(t, err)
			content, err := d.With(s, issued)
			require.NoError(t, err)
			content.Secret(s.Key, nil)
		case Repair:
			d.Content.Patch(s.Secret)
		}
		require.Equal(t, want.Requesters, s.Requesters)
		require.Equal(t, want.Owners, s.Owners)
		if s.Secret != nil {
			want.Secret.verified, s.Secret.verified = nil, nil // which is found out once
			require.Equal(t, want.Secret, s.Secret)
		}
	})
}
