package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestParseProxyPort(t *testing.T) {
	for name, want := range map[string]ProxyPort{
		"sc-tls-8080":     {Upstream: "8080"},
		"sc-any-8080":     {Plaintext: true, Upstream: "8080"},
		"sc-tls-1":        {Upstream: "1"},
		"sc-any-65535":    {Plaintext: true, Upstream: "65535"},
		"sc-tls-http":     {Upstream: "http"},
		"sc-any-http-web": {Plaintext: true, Upstream: "http-web"},
	} {
		got, ok := ParseProxyPort(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, got, name)
		assert.Equal(t, name, got.Name())
	}
	for _, name := range []string{
		"", "https", "sc-tls", "sc-tls-", "sc-any-", "sc-tls-0", "sc-tls-65536", "sc-tls-08080", "sc-tls-http-web1", // 16 characters
		"sc-tls--http", "sc-tls-HTTP", "sc-tls-http-", "sc-all-8080", "xsc-tls-8080",
	} {
		_, ok := ParseProxyPort(name)
		assert.False(t, ok, name)
	}
}

// looksLike maps names of targetPorts to whether they resemble those of a proxy's port but are not.
var looksLike = map[string]bool{
	"sc-tls-99999": true, "sc-tls-0": true, "sc-tls-08080": true, "sc-tls-": true, "sc-tls": true, "sc-TLS-8080": true, "sc-tsl-8080": true,
	"sc-tls8080": true, "sctls-8080": true, "sc-any": true, "scany-8080": true, "cs-tls-8080": true, "s-c-tls-8080": true, "sc-ssl-8080": true,
	"sc_tls_8080": true, "sc-both-8080": true, "sc-8080": true, "sc-http": true, "sc-any-65536": true,
	"sc-tls-8080": false, "sc-any-http": false, "": false, "https": false, "scheduler": false, "sc": false, "tls-8080": false, "disc-tls": false, "scan": false,
}

func TestWhatLooksLikeAProxyPort(t *testing.T) {
	for name, want := range looksLike {
		assert.Equal(t, want, LooksLikeProxyPort(name), name)
	}
}

func TestCheckProxyPort(t *testing.T) {
	nobody := func(string) bool { return false }
	asking := func(annotations map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations}}
	}
	secret, pod, other := asking(map[string]string{AnnotationSecretName: "web-tls"}), asking(map[string]string{AnnotationKeySource: "pod"}), asking(map[string]string{AnnotationMode: "env"})
	now := metav1.Now()
	ends := asking(nil)
	ends.DeletionTimestamp = &now
	for _, tt := range []struct {
		name     string
		svc      *corev1.Service
		target   intstr.IntOrString
		declared bool
		want     string // in the error; "" for none
	}{
		{"asks", secret, intstr.FromString("sc-tls-8080"), false, ""},
		{"asks, with keys of pods", pod, intstr.FromString("sc-any-http"), false, ""},
		{"a number", other, intstr.FromInt32(8080), false, ""},
		{"another name", other, intstr.FromString("https"), false, ""},
		{"no certificate", other, intstr.FromString("sc-tls-8080"), false, `targetPort: "sc-tls-8080": no proxy is added, because the Service does not request a certificate: must have annotation servingcert.dev/secret-name, or servingcert.dev/key-source: pod`},
		{"no certificate, and the program's own port", other, intstr.FromString("sc-tls-8080"), true, ""},
		{"being deleted", ends, intstr.FromString("sc-tls-8080"), false, ""},
		{"misspelt", secret, intstr.FromString("sc-tsl-8080"), false, `targetPort: "sc-tsl-8080": does not request a proxy: must be sc-tls-PORT or sc-any-PORT, where PORT is the number`},
		{"no port", other, intstr.FromString("sc-tls-99999"), false, `targetPort: "sc-tls-99999": does not request a proxy`},
		{"the program's own name", secret, intstr.FromString("sc-http"), true, ""},
	} {
		declared := nobody
		if tt.declared {
			declared = func(name string) bool { return name == tt.target.StrVal }
		}
		err := CheckProxyPort(tt.svc, corev1.ServicePort{Name: "x", Port: 443, TargetPort: tt.target}, declared)
		if tt.want == "" {
			assert.NoError(t, err, tt.name)
		} else {
			assert.ErrorContains(t, err, tt.want, tt.name)
		}
	}
}
