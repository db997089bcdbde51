package signer

import (
	"crypto/x509"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/signertest"
)

// Whatever is done to a Secret or asked for anew, there is a new certificate with
// a new key, and an event says why.
func TestHeals(t *testing.T) {
	r := sharedSigner(t)
	data := func(t *testing.T, ns string, values map[string]any) {
		patchSecret(t, ns, "web-tls", map[string]any{"data": values})
	}
	for _, c := range []struct {
		name   string
		harm   func(t *testing.T, ns string, have served)
		reason string
	}{
		{"the Secret is deleted", func(t *testing.T, ns string, _ served) {
			require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
		}, "SecretMissing"},
		{"key and certificate do not match", func(t *testing.T, ns string, _ served) {
			data(t, ns, map[string]any{corev1.TLSPrivateKeyKey: newKey(t)})
		}, "KeyMismatch"},
		{"the root is served too", func(t *testing.T, ns string, have served) {
			bundle, err := r.bundle(t.Context())
			require.NoError(t, err)
			data(t, ns, map[string]any{corev1.TLSCertKey: append(pki.EncodeCertificates(have.leaf), bundle...)})
		}, "ChainChanged"},
		{"signed by a forged CA", func(t *testing.T, ns string, have served) {
			cert, key := forged(t, r, have.leaf)
			data(t, ns, map[string]any{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key})
		}, "SignedByOtherCA"},
		{"another algorithm is asked for", func(t *testing.T, ns string, _ served) {
			annotate(t, ns, "web", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
		}, "KeyAlgorithmChanged"},
		{"another name is asked for", func(t *testing.T, ns string, _ served) {
			annotate(t, ns, "web", map[string]any{api.AnnotationExtraDNSNames: "*.web." + ns + ".svc"})
		}, "NamesChanged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			makeService(t, ns, "web")
			before := r.waitGood(t, ns, "web", "web-tls")
			patchSecret(t, ns, "web-tls", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "shop"}, "annotations": map[string]any{"note": "mine"}}})
			c.harm(t, ns, before)
			after := r.waitGood(t, ns, "web", "web-tls", before.fingerprint())
			assert.NotEqual(t, before.leaf.PublicKey, after.leaf.PublicKey)
			waitEvent(t, ns, "web", "Normal CertificateReissued: "+c.reason+`: Secret "web-tls" has a new certificate: `)
			if c.reason != "SecretMissing" {
				assert.Equal(t, map[string]string{api.LabelManagedBy: r.instance, "team": "shop"}, after.secret.Labels, "a user's label stays")
				assert.Equal(t, map[string]string{"note": "mine", api.AnnotationIssuedLeaf: after.fingerprint()}, after.secret.Annotations, "a user's annotation stays")
				assert.Equal(t, before.secret.UID, after.secret.UID)
			}
		})
	}
}

func newKey(t *testing.T) []byte {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	pem, err := pki.EncodeKey(key)
	require.NoError(t, err)
	return pem
}

// forged is a pair like the leaf's in all but the signature: by a CA with the
// subject and the key id of ours, and another key.
func forged(t *testing.T, r *running, leaf *x509.Certificate) (cert, key []byte) {
	bundle, err := r.bundle(t.Context())
	require.NoError(t, err)
	roots, err := pki.ParseCertificates(bundle)
	require.NoError(t, err)
	caKey, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	issuer := *roots[0]
	issuer.PublicKey = caKey.Public()
	leafKey, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := *leaf
	out := signertest.Certify(t, &template, &issuer, leafKey.Public(), caKey)
	require.Equal(t, leaf.AuthorityKeyId, out.AuthorityKeyId)
	require.Equal(t, leaf.RawIssuer, out.RawIssuer)
	key, err = pki.EncodeKey(leafKey)
	require.NoError(t, err)
	return pki.EncodeCertificates(out), key
}

// What is repaired without a new certificate.
func TestRepairsWithTheCertificateAsItIs(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web")
	before := r.waitGood(t, ns, "web", "web-tls")
	for name, patch := range map[string]map[string]any{
		"an extra key":  {"data": map[string]any{"ca.crt": []byte("x")}},
		"no label":      {"metadata": map[string]any{"labels": nil}},
		"another label": {"metadata": map[string]any{"labels": map[string]any{api.LabelManagedBy: "another"}}},
		"no owner":      {"metadata": map[string]any{"ownerReferences": nil}},
		"neither":       {"metadata": map[string]any{"ownerReferences": nil}, "data": map[string]any{"ca.crt": []byte("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			patchSecret(t, ns, "web-tls", patch)
			harness.Eventually(t, func() error {
				have, err := whatIsServed(t.Context(), ns, "web-tls")
				if err != nil {
					return err
				}
				if len(have.secret.Data) != 2 || have.secret.Labels[api.LabelManagedBy] != r.instance || len(have.secret.OwnerReferences) != 1 {
					return fmt.Errorf("not repaired: %v", have.secret.ObjectMeta)
				}
				require.Equal(t, before.fingerprint(), have.fingerprint())
				return nil
			})
		})
	}
	events, err := eventsOf(t.Context(), ns, "web")
	require.NoError(t, err)
	assert.Empty(t, events)
}
