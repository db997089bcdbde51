package signer

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/bounded"
)

// asks are the annotations of a Service that wants key and chain in one file.
var asks = []string{api.AnnotationCombinedPEM, "true"}

// withCombined adds the pair as one file to the Secret's data.
func withCombined(secret *corev1.Secret) *corev1.Secret {
	secret.Data[api.CombinedKey] = combined(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	return secret
}

// combined returns the pair as one file.
func combined(certPEM, keyPEM []byte) []byte {
	files, err := formats.Of(&formats.Combined).Make(formats.Pair{Cert: certPEM, Key: keyPEM})
	if err != nil {
		panic(err) // it only joins them
	}
	return files[api.CombinedKey]
}

// A program that reads key and certificates from the one file finds the pair, and a
// program that reads PEM block by block finds the key first and the leaf next.
func TestCombinedIsAPair(t *testing.T) {
	ladder := generations(t, 3)
	bounded.Checks(t, 40)
	rapid.Check(t, func(t *rapid.T) {
		ca := ladder.At(epoch, oneOf(t, "generation", 1, 2, 3))
		wanted := wantedBy(service("web"))
		wanted.Params.KeyAlgorithm = oneOf(t, "algorithm", pki.ECDSAP256, pki.ECDSAP384, pki.ECDSAP521, pki.Ed25519, pki.RSA2048)
		issued := issueBy(t, ca, wanted, epoch)
		keyPEM := oneOf(t, "key", issued.KeyPEM, bytes.TrimSpace(issued.KeyPEM))
		file := combined(issued.CertPEM, keyPEM)
		pair, err := tls.X509KeyPair(file, file)
		require.NoError(t, err)
		want, err := tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
		require.NoError(t, err)
		require.Equal(t, want, pair)

		block, rest := pem.Decode(file)
		require.Equal(t, "PRIVATE KEY", block.Type)
		require.Equal(t, string(issued.CertPEM), string(rest))
		certs, err := pki.ParseCertificates(rest)
		require.NoError(t, err)
		require.Equal(t, append([]*x509.Certificate{issued.Leaf}, ca.Chain...), certs)
	})
}

// Whether the file is there makes no difference to the certificate.
func TestDecideCombined(t *testing.T) {
	ask := func(w *scene) { w.services[0] = service("web", asks...) }
	have := func(w *scene) { withCombined(w.secret) }
	change := func(value string) func(*scene) {
		return func(w *scene) { w.secret.Data[api.CombinedKey] = []byte(value) }
	}
	spaced := func(w *scene) {
		w.secret.Data[api.CombinedKey] = bytes.ReplaceAll(w.secret.Data[api.CombinedKey], []byte("\n"), []byte("\r\n"))
	}
	immutable := func(w *scene) { yes := true; w.secret.Immutable = &yes }
	all := func(changes ...func(*scene)) func(*scene) {
		return func(w *scene) {
			for _, change := range changes {
				change(w)
			}
		}
	}
	specify(t, testCA(t), []row{
		{name: "asked for and there", change: all(ask, have)},
		{name: "asked for later", action: Repair, change: ask},
		{name: "asked for by a second Service", action: Reissue, reason: reasonNames,
			change: func(w *scene) { w.services = append(w.services, service("api", asks...)) }},
		{name: "asked for and changed", action: Repair, change: all(ask, change("x"))},
		{name: "asked for and there, spaced by somebody", change: all(ask, have, spaced)},
		{name: "asked for and there, with more", action: Repair, change: all(ask, have, func(w *scene) {
			w.secret.Data[api.CombinedKey] = append(w.secret.Data[api.CombinedKey], w.secret.Data[corev1.TLSCertKey]...)
		})},
		{name: "asked for and emptied", action: Repair, change: all(ask, change(""))},
		{name: "not asked for and there", action: Repair, change: have},
		{name: "asked for in an immutable Secret", action: Replace, reason: reasonGarbage, message: `data under other keys has to change: "tls-combined.pem"`,
			change: all(ask, immutable)},
		{name: "asked for and there in an immutable Secret", change: all(ask, have, immutable)},
		{name: "asked for under a CA that cannot sign", verdict: "CALost",
			change: all(ask, func(w *scene) { w.caErr = caError("CALost") })},
		{name: "a wrong value, and it is there", change: all(have, func(w *scene) { w.services[0] = service("web", api.AnnotationCombinedPEM, "yes") })},
		{name: "a wrong value, and it is not there", change: func(w *scene) { w.services[0] = service("web", api.AnnotationCombinedPEM, "yes") }},
		{name: "the Secret not asked for any more, and it is there", change: all(have, func(w *scene) { w.services[0] = service("web", api.AnnotationSecretName, "-") })},
		{name: "the Secret not asked for any more, and it was removed", action: Repair,
			change: func(w *scene) {
				w.services[0] = service("web", api.AnnotationSecretName, "-", api.AnnotationCombinedPEM, "true")
			}},
	})
}

// In a shared Secret, an invalid annotation of the Service that requests the file does not remove
// it, and neither do annotations of another Service.
func TestCombinedInASharedSecret(t *testing.T) {
	for name, c := range map[string]struct {
		web  []string // annotations of one Service; the other asks for nothing more
		want Action
	}{
		"asks":                       {asks, Nothing},
		"asks no more":               {nil, Repair},
		"says false":                 {[]string{api.AnnotationCombinedPEM, "false"}, Repair},
		"wrong value":                {[]string{api.AnnotationCombinedPEM, "yes"}, Nothing},
		"asks, with another mistake": {[]string{api.AnnotationCombinedPEM, "true", api.AnnotationDuration, "abc"}, Nothing},
		"another mistake alone":      {[]string{api.AnnotationDuration, "abc"}, Repair},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(testCA(t), nil, service("api"), service("web", asks...))
			s, d := w.decide()
			w.apply(t, s, d, plainSign())
			require.Contains(t, w.secret.Data, api.CombinedKey)
			w.services[1] = service("web", c.web...)
			_, d = w.decide()
			assert.Equal(t, c.want.String(), d.Action.String())
		})
	}
}

// The file is written, compared and in the facts, with an issued and with an existing pair.
func TestContentCombined(t *testing.T) {
	ca := testCA(t)
	w := newScene(ca, nil, service("web", asks...))
	s, d := w.decide()
	require.Equal(t, Create, d.Action)
	w.apply(t, s, d, plainSign())
	first := w.secret.DeepCopy()
	assert.Equal(t, combined(first.Data[corev1.TLSCertKey], first.Data[corev1.TLSPrivateKeyKey]), first.Data[api.CombinedKey])
	assert.Len(t, first.Data, 3)

	w.services[0] = service("web") // withdrawn
	s, d = w.decide()
	require.Equal(t, Repair, d.Action)
	assert.False(t, d.Content.NeedsPair(s.Secret), "the file can be removed by its name")
	w.apply(t, s, d, plainSign())
	assert.Equal(t, map[string][]byte{corev1.TLSCertKey: first.Data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: first.Data[corev1.TLSPrivateKeyKey]}, w.secret.Data)

	w.services[0] = service("web", asks...) // and asked for again
	s, d = w.decide()
	require.Equal(t, Repair, d.Action)
	require.True(t, d.Content.NeedsPair(s.Secret))
	content, err := d.Content.WithPair(w.secret)
	require.NoError(t, err)
	body, err := json.Marshal(content.Patch(s.Secret))
	require.NoError(t, err)
	var patch struct{ Data map[string][]byte }
	require.NoError(t, json.Unmarshal(body, &patch))
	assert.Equal(t, map[string][]byte{api.CombinedKey: first.Data[api.CombinedKey]}, patch.Data, "the pair is not written")
	assert.NotContains(t, d.Content.Data, api.CombinedKey, "the decision does not keep the key")
	w.apply(t, s, d, plainSign())
	assert.Equal(t, first.Data, w.secret.Data)

	w.secret.Labels[api.LabelManagedBy] = api.DefaultInstance
	w.secret.OwnerReferences = nil // another repair leaves the file alone
	s, d = w.decide()
	require.Equal(t, Repair, d.Action)
	assert.False(t, d.Content.NeedsPair(s.Secret))
	assert.NotContains(t, d.Content.Patch(s.Secret), "data")
	w.apply(t, s, d, plainSign())
	assert.Equal(t, first.Data, w.secret.Data)

	w.now = FactsOf(w.secret, api.DefaultInstance).Leaf.RenewAt
	s, d = w.decide()
	require.Equal(t, Reissue, d.Action)
	w.apply(t, s, d, plainSign())
	assert.NotEqual(t, first.Data[api.CombinedKey], w.secret.Data[api.CombinedKey])
	assert.Equal(t, combined(w.secret.Data[corev1.TLSCertKey], w.secret.Data[corev1.TLSPrivateKeyKey]), w.secret.Data[api.CombinedKey])
}

// Invariant 9: neither the file nor its digest gives the key away.
func TestInvariant9FactsOfCombinedHoldNoPrivateKey(t *testing.T) {
	ca := testCA(t)
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.Ed25519, pki.RSA2048} {
		w := newScene(ca, nil, service("web", append(asks, api.AnnotationKeyAlgorithm, string(algorithm))...))
		s, d := w.decide()
		w.apply(t, s, d, plainSign())
		f := FactsOf(w.secret, api.DefaultInstance)
		require.Contains(t, f.Other, api.CombinedKey)
		delete(w.secret.Data, api.CombinedKey)
		s, d = w.decide()
		require.True(t, d.Content.NeedsPair(s.Secret))
		for _, v := range []any{f, s, d} {
			everything := everythingIn(reflect.ValueOf(v), map[uintptr]bool{reflect.ValueOf(ca).Pointer(): true})
			require.NotEmpty(t, everything)
			for _, piece := range piecesOf(t, w.secret.Data[corev1.TLSPrivateKeyKey]) {
				require.NotContains(t, everything, piece)
			}
		}
	}
}
