package signer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// The password is removed with the last encrypted file.
func TestThePasswordGoes(t *testing.T) {
	w := newScene(testCA(t), nil, service("web", api.AnnotationFormats, "keystore.p12", api.AnnotationKeystorePassword, "s3cret!"))
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	require.Equal(t, "s3cret!", w.secret.Annotations[api.AnnotationKeystorePassword])
	w.services[0] = service("web")
	s, d = w.decide()
	require.Equal(t, Repair, d.Action)
	w.apply(t, s, d, plainSign())
	assert.Empty(t, w.secret.Annotations[api.AnnotationKeystorePassword])
	assert.NotContains(t, w.secret.Data, formats.KeystoreFile)
	_, d = w.decide()
	assert.Equal(t, Nothing, d.Action)
}

// The files of the roots are written with the certificate. To repair them, the pair is neither read
// nor replaced.
func TestRootsInASecret(t *testing.T) {
	ca := testCA(t)
	w := newScene(ca, nil, service("web", api.AnnotationFormats, "ca.crt,truststore.p12,keystore.p12", api.AnnotationKeystorePassword, "s3cret!"))
	s, d := w.decide()
	require.Equal(t, Create, d.Action)
	w.apply(t, s, d, plainSign())
	first := w.secret.DeepCopy()
	require.Len(t, first.Data, 5)
	assert.Equal(t, ca.Bundle.PEM(), first.Data[formats.CAFile])
	truststore, err := formats.MakeTruststore(ca.Bundle, "s3cret!")
	require.NoError(t, err)
	assert.Equal(t, truststore, first.Data[formats.TruststoreFile])
	_, d = w.decide()
	assert.Equal(t, Nothing, d.Action)

	for name, damage := range map[string]func(data map[string][]byte){
		"one is removed": func(data map[string][]byte) { delete(data, formats.CAFile) },
		"the other":      func(data map[string][]byte) { delete(data, formats.TruststoreFile) },
		"one has more": func(data map[string][]byte) {
			data[formats.CAFile] = append(data[formats.CAFile], first.Data[corev1.TLSCertKey]...)
		},
		"one is cut off":     func(data map[string][]byte) { data[formats.TruststoreFile] = truststore[:100] },
		"of another CA":      func(data map[string][]byte) { data[formats.CAFile] = testCA(t).Bundle.PEM() },
		"both are emptied":   func(data map[string][]byte) { data[formats.CAFile], data[formats.TruststoreFile] = nil, nil },
		"one in the other's": func(data map[string][]byte) { data[formats.CAFile] = truststore },
	} {
		t.Run(name, func(t *testing.T) {
			w.secret = first.DeepCopy()
			damage(w.secret.Data)
			s, d := w.decide()
			require.Equal(t, Repair, d.Action)
			assert.False(t, d.Content.NeedsPair(s.Secret))
			w.apply(t, s, d, plainSign())
			assert.Equal(t, first.Data, w.secret.Data)
		})
	}
	w.secret, w.services[0] = first.DeepCopy(), service("web", api.AnnotationFormats, "ca.crt")
	s, d = w.decide()
	require.Equal(t, Repair, d.Action)
	w.apply(t, s, d, plainSign())
	require.Len(t, w.secret.Data, 3)
	_, d = w.decide()
	assert.Equal(t, Nothing, d.Action)
}

// When the CA bundle changes, its files are replaced in each Secret at its own time, and the
// certificate stays. A damaged file is repaired at once.
func TestRootsFollowTheBundle(t *testing.T) {
	before := testCA(t)
	w := newScene(before, nil, service("web", api.AnnotationFormats, "ca.crt,truststore.p12"))
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	first := w.secret.DeepCopy()

	after := *before // with a root that does not sign yet
	after.Bundle = pki.NewBundle(append(before.Bundle.Certificates(), testCA(t).Certificate)...)
	w.ca = &after
	_, d = w.decide()
	require.Equal(t, Repair, d.Action, "at once, if the process does not know since when")

	s = w.situation()
	s.Before = Before{Bundle: &before.Bundle, Replace: pki.Window{From: epoch, Until: epoch.Add(5 * time.Minute)}}
	at := s.Before.Replace.AtOf(s.Secret.Leaf.Sum)
	require.True(t, at.After(epoch))
	d = Decide(s, OwnershipOf(s))
	require.Equal(t, Nothing, d.Action)
	assert.Equal(t, at, d.NextAt)
	assert.Equal(t, s.Secret.Leaf.Fingerprint, d.Leaf, "and it is ready")

	w.secret.Data[formats.CAFile] = nil
	s.Secret = FactsOf(w.secret, api.DefaultInstance)
	require.Equal(t, Repair, Decide(s, OwnershipOf(s)).Action, "damaged meanwhile")
	w.secret = first.DeepCopy()
	w.secret.OwnerReferences = nil
	s.Secret = FactsOf(w.secret, api.DefaultInstance)
	require.Equal(t, Repair, Decide(s, OwnershipOf(s)).Action, "other repairs do not wait")

	w.secret = first.DeepCopy()
	s.Secret, s.Now = FactsOf(w.secret, api.DefaultInstance), at
	d = Decide(s, OwnershipOf(s))
	require.Equal(t, Repair, d.Action)
	w.now = at
	w.apply(t, s, d, plainSign())
	assert.Equal(t, after.Bundle.PEM(), w.secret.Data[formats.CAFile])
	assert.Equal(t, first.Data[corev1.TLSCertKey], w.secret.Data[corev1.TLSCertKey])
	assert.Equal(t, first.Data[corev1.TLSPrivateKeyKey], w.secret.Data[corev1.TLSPrivateKeyKey])
	s.Secret = FactsOf(w.secret, api.DefaultInstance)
	assert.Equal(t, Nothing, Decide(s, OwnershipOf(s)).Action)
}
