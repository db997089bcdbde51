package signer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// Invariant 1: a Secret that is not ours is never written. isOurs is a second implementation of
// the contract, from the bytes of the Secret.
func TestInvariant1WhatIsNotOursIsNeverWritten(t *testing.T) {
	world := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		_, d := w.decide()
		switch {
		case d.External:
			require.Equal(t, Nothing, d.Action)
		case w.secret == nil:
			require.Contains(t, []Action{Nothing, Create}, d.Action)
		case isOurs(w):
			require.NotEqual(t, Create, d.Action)
		default:
			require.Equal(t, Nothing, d.Action, "%s: %s", d.Reason, d.Message)
		}
	})
}

// isOurs: our label or an owner reference to one of the Services by its name, and
// a leaf of our CA or no data at all. Or label and owner reference both.
func isOurs(w *scene) bool {
	labelled := w.secret.Labels[api.LabelManagedBy] == api.DefaultInstance
	var named, owned bool
	for _, svc := range w.services {
		for _, ref := range w.secret.OwnerReferences {
			if svc.DeletionTimestamp == nil && ref.APIVersion == "v1" && ref.Kind == "Service" {
				named, owned = named || ref.Name == svc.Name, owned || ref.UID == svc.UID
			}
		}
	}
	known := len(bytes.Join(slices.Collect(valuesOf(w.secret)), nil)) == 0
	if certs, err := pki.ParseCertificates(w.secret.Data[corev1.TLSCertKey]); err == nil {
		known = known || certs[0].CheckSignatureFrom(w.ca.Certificate) == nil
	}
	return w.secret.Type == corev1.SecretTypeTLS && ((labelled || named) && known || labelled && owned)
}

func valuesOf(secret *corev1.Secret) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for _, value := range secret.Data {
			if !yield(value) {
				return
			}
		}
	}
}

// Invariant 3: decisions are made from the bytes of certificates. No annotation
// of a Secret, and no label but ours, changes any, except for api.AnnotationIssuedLeaf, which may
// prevent a write.
func TestInvariant3AnnotationsOfSecretsChangeNothing(t *testing.T) {
	world := newWorld(t)
	keys := []string{api.AnnotationSecretName, api.AnnotationDuration, api.AnnotationRenewAfter, api.AnnotationKeyAlgorithm, api.LabelInject, "cert-manager.io/common-name"}
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		s, before := w.decide()
		said := conditions(s, before)
		if w.secret != nil {
			record := w.secret.Annotations[api.AnnotationIssuedLeaf]
			w.secret.Annotations = rapid.MapOf(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"", "true", "1h", "web-tls", "RSA4096"})).Draw(t, "annotations")
			w.secret.Annotations[api.AnnotationIssuedLeaf] = record
			w.secret.Labels[oneOf(t, "label key", "a", api.LabelInject)] = "enabled"
		}
		s, after := w.decide()
		require.Equal(t, before, after)
		require.Equal(t, said, conditions(s, after))
	})
}

// After a write there is nothing left to write until NextAt, so the signer does not write in a
// loop.
func TestOneWriteIsEnough(t *testing.T) {
	world := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		s, d := w.decide()
		w.apply(t, s, d, plainSign())
		_, again := w.decide()
		require.Equal(t, Nothing, again.Action, "after %s %s (%s): %s %s: %s", d.Action, d.Reason, d.Message, again.Action, again.Reason, again.Message)
		if d.Action == Nothing {
			require.Equal(t, d, again)
			return
		}
		require.NotEmpty(t, again.Leaf, "after a write all is well")
		require.True(t, again.NextAt.After(w.now))
		w.now = again.NextAt.Add(-1)
		_, before := w.decide()
		require.Equal(t, Nothing, before.Action, "nothing is early: %s", before.Message)
		w.now = again.NextAt
		_, due := w.decide()
		require.NotEqual(t, Nothing, due.Action, "and nothing forgotten")
	})
}

// Invariant 5: every certificate has a key of its own, and both change in one write, which does
// not change users' fields.
func TestInvariant5EveryReissueHasANewKeyInOneWrite(t *testing.T) {
	world := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		if w.secret != nil {
			w.secret.Annotations = map[string]string{"team": "shop"}
		}
		s, d := w.decide()
		if d.Action == Nothing {
			return
		}
		var labels, kept map[string]string
		var oldKey []byte
		if old := w.secret; old != nil {
			labels, kept, oldKey = old.Labels, old.Annotations, old.Data[corev1.TLSPrivateKeyKey]
		}
		w.apply(t, s, d, plainSign())
		for key, value := range labels {
			if key != api.LabelManagedBy {
				require.Equal(t, value, w.secret.Labels[key])
			}
		}
		password := w.secret.Annotations[api.AnnotationKeystorePassword]
		require.Equal(t, kept, annotations{api.AnnotationIssuedLeaf: "", api.AnnotationKeystorePassword: "", api.AnnotationKeystoreDigest: ""}.over(w.secret.Annotations))
		require.Equal(t, api.DefaultInstance, w.secret.Labels[api.LabelManagedBy])
		_, hasCombined := w.secret.Data[api.CombinedKey]
		require.Equal(t, d.Wanted.Formats.Has(&formats.Combined), hasCombined)
		require.Len(t, w.secret.Data, 2+len(d.Wanted.Formats.Files()))
		if d.Issues() {
			require.Equal(t, d.Wanted.Formats&^formats.OfRoots(), formats.HeldIn(w.secret.Data, pairIn(w.secret, password), w.secret.Annotations[api.AnnotationKeystoreDigest]))
		}
		if hasCombined {
			file := w.secret.Data[api.CombinedKey]
			_, err := tls.X509KeyPair(file, file)
			require.NoError(t, err)
			require.Equal(t, append(bytes.Clone(w.secret.Data[corev1.TLSPrivateKeyKey]), w.secret.Data[corev1.TLSCertKey]...), file)
		}
		require.Equal(t, d.Action == Repair, bytes.Equal(oldKey, w.secret.Data[corev1.TLSPrivateKeyKey]))
		facts := FactsOf(w.secret, api.DefaultInstance)
		require.Empty(t, facts.Defect, "the key is the certificate's")
	})
	t.Run("in one body", func(t *testing.T) {
		issued := issueBy(t, world.ca, wantedBy(service("web")), epoch)
		body, err := json.Marshal(contentOf(Situation{}, Decision{}, &issued).Patch(FactsOf(managed(issued), api.DefaultInstance)))
		require.NoError(t, err)
		var patch struct{ Data map[string][]byte }
		require.NoError(t, json.Unmarshal(body, &patch))
		assert.Equal(t, map[string][]byte{corev1.TLSCertKey: issued.CertPEM, corev1.TLSPrivateKeyKey: issued.KeyPEM}, patch.Data)
	})
}

// CheckInvariant7 checks the signer's part of it with sign and a few others: no output contains a
// private key, for any content of a Secret and any failure of signing.
func CheckInvariant7(t *testing.T, sign issue.Sign) {
	world := newWorld(t)
	caKey, err := pki.EncodeKey(world.ca.Key)
	require.NoError(t, err)
	signers := []issue.Sign{sign, plainSign(), func(context.Context, *pki.Authority, issue.SigningRequest) (*x509.Certificate, error) {
		return nil, errors.New("the CA is away")
	}, plainSign(func(c *x509.Certificate, by *pki.Authority) { *by = *world.other })}
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		leafKey := issueBy(t, world.ca, wantedBy(service("web")), epoch).KeyPEM
		if w.secret != nil {
			for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, "ca.crt", api.CombinedKey}), rapid.ID[string]).Draw(t, "places") {
				pem := oneOf(t, "key", leafKey, caKey)
				w.secret.Data[key] = oneOf(t, "form", pem, bytes.Replace(pem, []byte(" PRIVATE KEY"), []byte(" CERTIFICATE"), 2), pem[10:], append([]byte("-----BEGIN "), pem...))
			}
		}
		s, d := w.decide()
		words := fmt.Sprint(d.Message, d.Problem, said(s, d))
		if d.Wanted.Params.KeyAlgorithm != "" && s.Authority != nil {
			issued, err := issue.Issue(context.Background(), oneOf(t, "sign", signers...), s.Authority, d.Wanted, w.now)
			if err != nil {
				words += renewalFailed(service("web"), "web-tls", err).Note
			}
			words += reissued(service("web"), "web-tls", d.Reason, d.Message).Note
			words += fmt.Sprint(err, string(issued.CertPEM))
			if issued.KeyPEM != nil {
				leafKey = append(leafKey[:0:0], issued.KeyPEM...)
			}
		}
		for _, piece := range append(piecesOf(t, leafKey), piecesOf(t, caKey)...) {
			require.NotContains(t, words, piece)
		}
	})
}

// Invariant 10: nothing in use is removed. The certificate of an existing Service is renewed with
// its names, whatever happens to its annotations.
func TestInvariant10WhatIsInUseIsKept(t *testing.T) {
	world := newWorld(t)
	spoil := map[string]string{
		"removed": api.AnnotationSecretName + "=-", "renamed": api.AnnotationSecretName + "=new-tls", "renamed to nonsense": api.AnnotationSecretName + "=A_B",
		"no duration": api.AnnotationDuration + "=abc", "no algorithm": api.AnnotationKeyAlgorithm + "=DSA",
		"no name": api.AnnotationExtraDNSNames + "=example.com", "no time": api.AnnotationRenewAfter + "=soon", "no bool": api.AnnotationClusterIPs + "=yes",
		"wrong combined": api.AnnotationCombinedPEM + "=yes",
	}
	rapid.Check(t, func(t *rapid.T) {
		annotations := []string{api.AnnotationKeyAlgorithm, oneOf(t, "algorithm", "ECDSAP256", "ECDSAP384", "ED25519"), api.AnnotationDuration, oneOf(t, "duration", "24h", "2160h"), api.AnnotationCombinedPEM, oneOf(t, "combined", "true", "false")}
		web := service("web", annotations...)
		w := newScene(world.ca, nil, web)
		s, d := w.decide()
		w.apply(t, s, d, plainSign())
		first, keys := FactsOf(w.secret, api.DefaultInstance).Leaf, sortedKeys(w.secret.Data)
		s, d = w.decide()
		ready := readyOf(t, s, d, web)

		what := rapid.SampledFrom(sortedKeys(spoil)).Draw(t, "spoil")
		w.services[0] = service("web", append(annotations, split(spoil[what])...)...)
		w.services[0].Status.Conditions = ready.Both()
		w.notOptedIn = seldom(t, 4, "opted out")
		_, d = w.decide()
		require.Equal(t, Nothing, d.Action, "%s", d.Message)
		require.True(t, d.Retained)
		require.Equal(t, first.RenewAt, d.NextAt)

		w.now = d.NextAt
		s, d = w.decide()
		require.Equal(t, Reissue, d.Action)
		require.Equal(t, reasonDue, d.Reason)
		w.apply(t, s, d, plainSign())
		renewed := FactsOf(w.secret, api.DefaultInstance)
		require.True(t, renewed.OwnedBy(web.UID))
		require.Equal(t, keys, sortedKeys(w.secret.Data))
		require.NotEqual(t, first.Fingerprint, renewed.Leaf.Fingerprint)
		require.Equal(t, first.DNSNames, renewed.Leaf.DNSNames)
		require.Equal(t, first.KeyAlgorithm, renewed.Leaf.KeyAlgorithm)
		require.Equal(t, first.NotAfter.Sub(first.NotBefore), renewed.Leaf.NotAfter.Sub(renewed.Leaf.NotBefore))

		w.secret = nil
		_, d = w.decide()
		require.Equal(t, Nothing, d.Action, "deleted, it is not made again")
	})
}

// The same for one of several Services that share a Secret: its new request is refused, and it
// keeps its names.
func TestInvariant10APartInASharedSecretIsKept(t *testing.T) {
	ca := testCA(t)
	for name, annotation := range map[string]string{
		"invalid":       api.AnnotationDuration + "=abc",
		"contradiction": api.AnnotationKeyAlgorithm + "=RSA2048",
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(ca, nil, service("api"), service("web"), service("zoo"))
			s, d := w.decide()
			w.apply(t, s, d, plainSign())

			w.services[1] = service("web", split(annotation)...)
			s, d = w.decide()
			assert.Equal(t, Nothing.String(), d.Action.String(), "%s", d.Message)
			assert.Equal(t, pki.ECDSAP256, d.Wanted.Params.KeyAlgorithm)
			words := said(s, d)
			assert.Contains(t, words["api"], "True Issued: ")
			assert.Contains(t, words["web"], "False InvalidAnnotation: ")
			assert.Contains(t, words["web"], `; the certificate in Secret "web-tls" keeps this Service's names`)

			w.services[1] = service("web", api.AnnotationSecretName, "-")
			_, d = w.decide()
			assert.Equal(t, reasonNames, d.Reason, "one that leaves takes its names with it")
			assert.NotContains(t, d.Wanted.DNSNames, "web.shop.svc")
			assert.Contains(t, d.Wanted.DNSNames, "zoo.shop.svc")
		})
	}
}
