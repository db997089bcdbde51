package signertest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

// OneOf draws one of the values.
func OneOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

// Seldom is true once in n draws.
func Seldom(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(1, n).Draw(t, label) == n
}

// DrawService draws a Service that may ask for web-tls, for another Secret or for
// none, and for what is allowed or not.
func DrawService(t *rapid.T, name string) *corev1.Service {
	svc := Service(name,
		api.AnnotationSecretName, OneOf(t, "secret", "web-tls", "web-tls", "web-tls", "other-tls", "Not_Valid", "-"),
		api.AnnotationIssuer, OneOf(t, "issuer", "-", "-", "-", "-", "servingcert", "external", "vault"),
		api.AnnotationDuration, OneOf(t, "duration", "-", "-", "24h", "48h", "abc"),
		api.AnnotationKeyAlgorithm, OneOf(t, "algorithm", "-", "-", "ECDSAP256", "ED25519", "DSA"),
		api.AnnotationExtraDNSNames, OneOf(t, "extra", "-", "-", "x."+name+".shop.svc", "example.com"),
		api.AnnotationRenewAfter, OneOf(t, "renew", "-", "-", "2026-02-28T00:00:00Z", "2026-03-10T00:00:00Z", "soon"),
		api.AnnotationCombinedPEM, OneOf(t, "combined", "-", "-", "true", "false", "yes"),
		api.AnnotationFormats, OneOf(t, "formats", "-", "-", "der", "combined.pem, keystore.p12", "ca.crt,truststore.p12", "keystore.p12,jks"),
		api.AnnotationKeystorePassword, OneOf(t, "password", "-", "-", "changeit", "s3cret!", "short"),
	)
	svc.CreationTimestamp = metav1.NewTime(Epoch.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * Day))
	if rapid.Bool().Draw(t, "headless") {
		svc.Spec.ClusterIP = corev1.ClusterIPNone
	}
	if Seldom(t, 8, "deleted") {
		now := metav1.NewTime(Epoch)
		svc.DeletionTimestamp = &now
	}
	return svc
}
