package api

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/test/bounded"
)

// maxParsed bounds the allocation for one object's annotations: a few copies of the
// longest allowed values.
const maxParsed = 8 * MaxAnnotation * bounded.RaceFactor

// checkParsed fails if err is not a short *FieldError, or if more than maxParsed was allocated.
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

// FuzzServiceAnnotations: a Service's request is refused with a short error, or has no more names
// than a certificate may have.
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

// FuzzPodAnnotations: a pod's request is refused with a short error, or is short.
func FuzzPodAnnotations(f *testing.F) {
	f.Add("web, proxy", "args", "--cert", "--key", "/etc/tls", "auto", "web-tls", "8081, 65535")
	f.Add(strings.Repeat("a,", 120), "x", "-", "--=", "//", "TRUE", "A_B", strings.Repeat("1,", 20))
	f.Fuzz(func(t *testing.T, containers, mode, certFlag, keyFlag, mountPath, probes, secret, ports string) {
		meta := &metav1.ObjectMeta{Annotations: map[string]string{
			AnnotationContainers: containers, AnnotationMode: mode, AnnotationCertFlag: certFlag, AnnotationKeyFlag: keyFlag,
			AnnotationMountPath: mountPath, AnnotationHTTPSProbes: probes, AnnotationSecretName: secret, AnnotationProxyProtocol: ports,
		}}
		var r PodRequest
		var err error
		allocated := bounded.Allocated(func() { r, err = ParsePod(meta) })
		checkParsed(t, err, allocated)
		if len(r.Containers) > MaxNames || len(r.ProxyProtocol) > MaxProxyPorts {
			t.Fatalf("%d containers, %d ports", len(r.Containers), len(r.ProxyProtocol))
		}
		checkParsed(t, nil, bounded.Allocated(func() { ParseSettings(meta.Annotations) }))
	})
}

// FuzzPodStatus: servingcert's own annotations of a pod, which the pod's author can forge, are
// short, or are not read.
func FuzzPodStatus(f *testing.F) {
	status := InjectionStatus{Secret: "web-tls", Service: "web", Containers: map[string]string{"app": "files,env"}, Notes: []string{"Note: é"}}
	f.Add(status.Format(), Mounted{Leaves: map[string]string{"web-tls": strings.Repeat("0a", 32)}, Bundle: strings.Repeat("0b", 32)}.String(), uint16(1))
	f.Add(`{"containers":{"a":"files"},"notes":[`, "secret/", uint16(9000))
	f.Add(`[`, ",", uint16(9000))
	f.Fuzz(func(t *testing.T, status, leaf string, times uint16) {
		status, leaf = strings.Repeat(status, 1+int(times)%(1+MaxAnnotation/(1+len(status)))), strings.Repeat(leaf, 1+int(times)%(1+MaxAnnotation/(1+len(leaf))))
		var s InjectionStatus
		var ok bool
		if err := bounded.Check(len(status), func() { s, ok = ParseInjectionStatus(status) }); err != nil {
			t.Fatal(err)
		}
		if !ok && (len(s.Containers) > 0 || len(s.Notes) > 0) {
			t.Fatalf("%+v", s)
		}
		var m Mounted
		if err := bounded.Check(len(leaf), func() { m = ParseMounted(leaf) }); err != nil {
			t.Fatal(err)
		}
		if len(m.String()) > MaxAnnotation {
			t.Fatalf("%d bytes", len(m.String()))
		}
	})
}
