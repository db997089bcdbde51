package api

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/test/bounded"
)

// maxParsed is what reading one object's annotations may allocate: a few copies of the
// longest that are allowed.
const maxParsed = 8 * MaxAnnotation * bounded.RaceFactor

// checkParsed fails if err is no short *FieldError, or more was allocated than maxParsed.
func checkParsed(t *testing.T, err error, allocated uint64) {
	t.Helper()
	var field *FieldError
	if err != nil && (!errors.As(err, &field) || len(err.Error()) > 2000) {
		t.Fatalf("%d bytes of error: %.300s", len(err.Error()), err)
	}
	if allocated > maxParsed {
		t.Fatalf("%d bytes were allocated", allocated)
	}
}

// FuzzServiceAnnotations: what a Service asks for is refused in a few words, or has no more
// names than a certificate may have.
func FuzzServiceAnnotations(f *testing.F) {
	f.Add("web-tls", "720h", "ECDSAP256", "*.web.shop.svc, api.apps.example.com", "true", "2026-01-31T12:00:00Z")
	f.Add("", "-1h", "RSA", strings.Repeat("a.web.shop.svc,", 120), "", "now")
	limits := permissive()
	limits.FormerDomains = []string{"old.local"}
	f.Fuzz(func(t *testing.T, secret, duration, algorithm, names, ips, after string) {
		svc := service(AnnotationSecretName, secret, AnnotationDuration, duration, AnnotationKeyAlgorithm, algorithm,
			AnnotationExtraDNSNames, names, AnnotationClusterIPs, ips, AnnotationRenewAfter, after)
		var r Request
		var kept Wanted
		var err error
		allocated := bounded.Allocated(func() { r, err = Parse(svc, limits) })
		checkParsed(t, err, allocated)
		checkParsed(t, nil, bounded.Allocated(func() { kept = Retained([]*corev1.Service{svc}, limits) }))
		if len(r.DNSNames) > MaxNames || len(kept.DNSNames) > MaxNames {
			t.Fatalf("%d and %d names", len(r.DNSNames), len(kept.DNSNames))
		}
		if err == nil && strings.Join(r.DNSNames, ",") != strings.Join(kept.DNSNames, ",") {
			t.Fatalf("asked for %q, would keep %q", r.DNSNames, kept.DNSNames)
		}
	})
}

// FuzzPodAnnotations: what a pod asks for is refused in a few words, or is short.
func FuzzPodAnnotations(f *testing.F) {
	f.Add("web, proxy", "args", "--cert", "--key", "/etc/tls", "auto", "web-tls")
	f.Add(strings.Repeat("a,", 120), "x", "-", "--=", "//", "TRUE", "A_B")
	f.Fuzz(func(t *testing.T, containers, mode, certFlag, keyFlag, mountPath, probes, secret string) {
		meta := &metav1.ObjectMeta{Annotations: map[string]string{
			AnnotationContainers: containers, AnnotationMode: mode, AnnotationCertFlag: certFlag, AnnotationKeyFlag: keyFlag,
			AnnotationMountPath: mountPath, AnnotationHTTPSProbes: probes, AnnotationSecretName: secret,
			AnnotationStatus: containers, AnnotationLeaf: secret,
		}}
		var r PodRequest
		var err error
		allocated := bounded.Allocated(func() { r, err = ParsePod(meta) })
		checkParsed(t, err, allocated)
		if len(r.Containers) > MaxNames {
			t.Fatalf("%d containers", len(r.Containers))
		}
		checkParsed(t, nil, bounded.Allocated(func() { ParseSettings(meta.Annotations) }))
		ParseInjectionStatus(containers)
		ParseMounted(secret)
	})
}
