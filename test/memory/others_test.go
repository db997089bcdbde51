package memory_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/csr"
	"github.com/servingcert/servingcert/pkg/signer/podcert"
)

// large is metadata with as much of everything as an API server takes, or more.
func large(i int) metav1.ObjectMeta {
	o := metav1.ObjectMeta{
		Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%s-%05d", strings.Repeat("x", 240), i), UID: types.UID(fmt.Sprintf("5f0e5c1e-4f3c-4a8e-9b1e-%012d", i)), ResourceVersion: "1000000",
		Labels: map[string]string{api.LabelInject: api.InjectEnabled, api.LabelManagedBy: api.DefaultInstance}, Annotations: map[string]string{},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", 128), FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:` + strings.Repeat("k", 100<<10) + `":{}}}`)}},
	}
	for j := range 300 {
		o.Labels[fmt.Sprintf("%s-%05d", strings.Repeat("k", 50), j)] = strings.Repeat("v", 63)
		o.OwnerReferences = append(o.OwnerReferences,
			metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: fmt.Sprintf("%s-%05d", strings.Repeat("s", 57), j), UID: types.UID(fmt.Sprintf("%s-%05d", strings.Repeat("u", 247), j))},
			metav1.OwnerReference{APIVersion: strings.Repeat("g", 253) + "/v1", Kind: strings.Repeat("K", 63), Name: fmt.Sprintf("%s-%05d", strings.Repeat("o", 247), j), UID: types.UID(fmt.Sprintf("%s-%05d", strings.Repeat("u", 247), j))})
		o.Finalizers = append(o.Finalizers, fmt.Sprintf("%s/%s-%05d", strings.Repeat("f", 253), strings.Repeat("f", 57), j))
	}
	for _, key := range append(api.OnNamespace.Annotations(), api.OnService.Annotations()...) {
		o.Annotations[key] = strings.Repeat("a", 30<<10)
	}
	return o
}

func metadata(i int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: large(i)}
}

// names returns n names, each as long as one may be.
func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("a%04d.%s.%s.%s.%s", i, strings.Repeat("a", 63), strings.Repeat("b", 63), strings.Repeat("c", 63), strings.Repeat("d", 52)))
	}
	return out
}

// largestSecret returns a function that makes Secrets of the signer's with as much in them as there may be.
func largestSecret(t *testing.T) func(int) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "web"}, NotBefore: time.Unix(1e9, 0), NotAfter: time.Unix(2e9, 0), DNSNames: names(api.MaxNames)}
	for i := range byte(100) {
		template.IPAddresses = append(template.IPAddresses, net.IPv4(10, 0, 0, i))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return func(i int) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: large(i), Type: corev1.SecretTypeTLS, Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
		}}
		s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
		for j := range 1000 {
			s.Data[fmt.Sprintf("%s-%05d", strings.Repeat("k", 247), j)] = []byte(strings.Repeat("x", 500))
		}
		return s
	}
}

// each returns how many bytes of n objects are retained for one.
func each[T any, O object[T]](t *testing.T, n int, object func(i int) O, keep func(O) any) int64 {
	t.Helper()
	return retained(t, n, object, keep) / int64(n)
}

// TestMemoryOfOthers holds what is kept of one object of the other kinds to the table of docs/limits.md.
func TestMemoryOfOthers(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names(32)}, key) // of more, less is kept
	require.NoError(t, err)
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	webhook, _ := admission.CacheOptions(api.DefaultNamespace, false, api.Share{})
	var inWebhook toolscache.TransformFunc
	for object, by := range webhook.ByObject {
		if o, ok := object.(*metav1.PartialObjectMetadata); ok && o.Kind == "Namespace" {
			inWebhook = by.Transform
		}
	}
	transformed := func(transform toolscache.TransformFunc) func(*metav1.PartialObjectMetadata) any {
		return func(o *metav1.PartialObjectMetadata) any {
			kept, err := transform(o)
			require.NoError(t, err)
			return kept
		}
	}
	for row, kept := range map[string]int64{
		"Secret of the signer's, in the signer": each(t, 30, largestSecret(t), func(s *corev1.Secret) any {
			f := signer.FactsOf(s, api.DefaultInstance)
			require.NotEmpty(t, f.Leaf.DNSNames)
			return f
		}),
		"the same without room in 48 MiB": each(t, 300, largestSecret(t), func(s *corev1.Secret) any {
			return signer.FactsOf(s, api.DefaultInstance).Reduce()
		}),
		"other Secret, in the signer: name, UID, and the names of Services that own it, the first 8": each(t, 30, metadata, transformed(facts.KeepOwners)),
		"Secret `serving-cert`, in the signer and the webhook: name and UID":                         each(t, 30, metadata, transformed(facts.KeepIdentity)),
		"Namespace, in the webhook: name and settings":                                               each(t, 30, metadata, transformed(inWebhook)),
		"Namespace, in signer and rotator: name and UID":                                             each(t, 30, metadata, transformed(facts.KeepIdentity)),
		"waiting CertificateSigningRequest, in the signer": each(t, 200, func(i int) *certificatesv1.CertificateSigningRequest {
			return &certificatesv1.CertificateSigningRequest{ObjectMeta: large(i), Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: api.SignerName, Request: request, Username: fmt.Sprint(strings.Repeat("u", 100<<10), i), Usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth},
			}}
		}, func(o *certificatesv1.CertificateSigningRequest) any { return csr.FactsOf(o, api.DefaultLimits()) }),
		"waiting PodCertificateRequest, in the signer; kubelets make them": each(t, 30, func(i int) *certificatesv1.PodCertificateRequest {
			r := &certificatesv1.PodCertificateRequest{ObjectMeta: large(i), Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: api.SignerName, PodName: strings.Repeat("p", 253), ServiceAccountName: strings.Repeat("s", 253), NodeName: types.NodeName(strings.Repeat("n", 253)),
				StubPKCS10Request: make([]byte, 8<<10), UnverifiedUserAnnotations: map[string]string{},
			}}
			for j := range 1000 {
				r.Spec.UnverifiedUserAnnotations[fmt.Sprintf("%s/%05d", strings.Repeat("k", 247), j)] = strings.Repeat("v", 63)
			}
			return r
		}, func(o *certificatesv1.PodCertificateRequest) any { return podcert.FactsOf(o) }),
	} {
		t.Logf("%s: %d bytes", row, kept)
		assert.Less(t, kept, documented(t, row)<<10, row)
		assert.Positive(t, kept, row)
	}
}
