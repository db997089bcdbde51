package signer

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/keymaterial"
)

// TestHostileSecretsCostLittle: the facts of a Secret of the largest size that the API server
// accepts need little time and memory.
func TestHostileSecretsCostLittle(t *testing.T) {
	certPEM, keyPEM := keymaterial.SelfSigned("a.example.com", 1)
	manyNames, _ := keymaterial.SelfSigned("a", 240_000)
	someNames, itsKey := keymaterial.SelfSigned("a", 15_000)
	manyKeys := map[string][]byte{}
	for i := range 50_000 {
		manyKeys[fmt.Sprint("k", i)] = nil
	}
	var roots []byte
	for len(roots) < 250<<10 {
		root, _ := keymaterial.SelfSigned("a.example.com", 1)
		roots = append(roots, root...)
	}
	var owners []metav1.OwnerReference
	for i := range 15_000 {
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y", Controller: new(bool)})
		if i == 14_999 {
			owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: "uid"})
		}
	}
	for name, tc := range map[string]struct {
		data   map[string][]byte
		meta   metav1.ObjectMeta
		defect Reason
		says   string
	}{
		"absurd key":        {map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keymaterial.AbsurdKey(195 << 10)}, metav1.ObjectMeta{}, reasonGarbage, "must be at most 8192"},
		"many names":        {map[string][]byte{corev1.TLSCertKey: manyNames, corev1.TLSPrivateKeyKey: keyPEM}, metav1.ObjectMeta{}, reasonGarbage, "must be at most 262144"},
		"more than we sign": {map[string][]byte{corev1.TLSCertKey: someNames, corev1.TLSPrivateKeyKey: itsKey}, metav1.ObjectMeta{}, reasonGarbage, "15000 names: must be at most 100"},
		"roots of one name": {map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM, api.BundleKey: roots}, metav1.ObjectMeta{}, "", ""},
		"other keys":        {manyKeys, metav1.ObjectMeta{}, reasonKeyMissing, "no data"},
		"owners":            {nil, metav1.ObjectMeta{OwnerReferences: owners}, reasonKeyMissing, "no data"},
		"long owner":        {nil, metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: strings.Repeat("x", 1<<20)}}}, reasonKeyMissing, "no data"},
		"annotation":        {nil, metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationRenewedAfter: strings.Repeat("x", 256<<10)}}, reasonKeyMissing, "no data"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: tc.meta, Type: corev1.SecretTypeTLS, Data: tc.data}
			assert.Less(t, bounded.Allocated(func() { ExternalOf(secret, "servingcert", nil, pki.Bundle{}, epoch) }), uint64(6<<20), "of another issuer, with ca.crt")
			var f *SecretFacts
			assert.Less(t, bounded.Allocated(func() { f = FactsOf(secret, "servingcert") }), uint64(3<<20))
			assert.Equal(t, tc.defect, f.Defect)
			assert.Contains(t, f.Detail, tc.says)
			assert.LessOrEqual(t, len(f.Leaf.DNSNames), api.MaxNames)
			assert.LessOrEqual(t, len(f.Other), maxOther+1)
			assert.LessOrEqual(t, len(f.OwnerReferences), 2*api.MaxOwners)
			for _, r := range f.OwnerReferences {
				assert.LessOrEqual(t, len(r.Kind), 63)
			}
			for _, v := range f.Annotations {
				assert.LessOrEqual(t, len(v), api.MaxAnnotation+1)
			}
			if name == "owners" {
				assert.True(t, f.OwnedBy("uid"), "a Service is found behind any number of others")
			}
		})
	}
}

// TestHostileKeysAreNotComputedWith: crypto/rsa takes milliseconds to reject a key with large
// numbers, which would block the watch of all Secrets.
func TestHostileKeysAreNotComputedWith(t *testing.T) {
	certPEM, _ := keymaterial.SelfSigned("a.example.com", 1)
	small, large := new(big.Int).Lsh(big.NewInt(1), 1000), new(big.Int).Lsh(big.NewInt(1), 5000)
	for name, numbers := range map[string][]*big.Int{
		"modulus": {large, small, small, small}, "exponent": {small, large, small, small}, "prime": {small, small, large, small}, "another prime": {small, small, small, large},
	} {
		inner, err := asn1.Marshal(struct {
			Version             int
			N                   *big.Int
			E                   int
			D, P, Q, Dp, Dq, Qi *big.Int
		}{0, numbers[0], 65537, numbers[1], numbers[2], numbers[3], small, small, small})
		require.NoError(t, err)
		outer, err := asn1.Marshal(struct {
			Version   int
			Algorithm pkix.AlgorithmIdentifier
			Key       []byte
		}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}, inner})
		require.NoError(t, err)
		for form, block := range map[string]*pem.Block{"PKCS #8": {Type: "PRIVATE KEY", Bytes: outer}, "PKCS #1": {Type: "RSA PRIVATE KEY", Bytes: inner}} {
			f := FactsOf(&corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: pem.EncodeToMemory(block)}}, "servingcert")
			assert.Equal(t, reasonGarbage, f.Defect, name)
			assert.Regexp(t, `RSA key of 500\d bits: must be at most 4096|RSA key of 5000 bits: must be at most 4096`, f.Detail, "%s, %s", name, form)
			assert.False(t, f.OtherForm)
		}
	}
}

// FuzzSecret: the facts of any Secret are bounded, cost a multiple of its size, and do not contain
// its key.
func FuzzSecret(f *testing.F) {
	certPEM, keyPEM := keymaterial.SelfSigned("a.example.com", 2)
	f.Add(certPEM, keyPEM)
	f.Add(append(certPEM, certPEM...), []byte("x"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), keymaterial.AbsurdKey(1000))
	f.Fuzz(func(t *testing.T, cert, key []byte) {
		secret := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, api.BundleKey: cert}}
		var facts *SecretFacts
		allocated := max(
			bounded.Allocated(func() { facts = FactsOf(secret, "servingcert") }),
			bounded.Allocated(func() { ExternalOf(secret, "servingcert", nil, pki.Bundle{}, epoch) }))
		if most := uint64(1<<20 + 64*(len(cert)+len(key))); allocated > most {
			t.Fatalf("%d and %d bytes became %d", len(cert), len(key), allocated)
		}
		if len(facts.Detail) > 2000 || len(facts.Leaf.DNSNames) > api.MaxNames || facts.verified != nil && len(facts.verified.Load().raw) > pki.MaxCertificate {
			t.Fatalf("%d names; %.300s", len(facts.Leaf.DNSNames), facts.Detail)
		}
	})
}
