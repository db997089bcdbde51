package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

var created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// service returns Service shop/web, which requests Secret web-tls, with the given pairs
// of annotations.
func service(annotations ...string) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", CreationTimestamp: metav1.NewTime(created),
			Annotations: map[string]string{AnnotationSecretName: "web-tls"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7", "fd00::7"},
			Selector: map[string]string{"app": "web"},
		},
	}
	for i := 0; i < len(annotations); i += 2 {
		svc.Annotations[annotations[i]] = annotations[i+1]
	}
	return svc
}

// permissive are limits that let namespaces team-* and shop request more.
func permissive() Limits {
	limits := DefaultLimits()
	limits.PermitDNSSuffixes = []SuffixRule{{"team-*", "teams.example.com"}, {"shop", "apps.example.com"}}
	limits.PermitClusterIPs = true
	return limits
}

func TestParseDefaults(t *testing.T) {
	r, err := Parse(service(), DefaultLimits())
	require.NoError(t, err)
	assert.Equal(t, Request{
		KeySource:  KeySourceSecret,
		SecretName: "web-tls",
		DNSNames:   []string{"web.shop.svc", "web.shop.svc.cluster.local"},
		Params:     Params{pki.ECDSAP256, 720 * time.Hour},
	}, r)
}

func TestParseReadsEveryAnnotation(t *testing.T) {
	svc := service(
		AnnotationDuration, "90m", AnnotationKeyAlgorithm, "ED25519", AnnotationClusterIPs, "true",
		AnnotationExtraDNSNames, "www.apps.example.com, a.web.shop.svc,*.apps.example.com,a.web.shop.svc",
		AnnotationRenewAfter, "2026-03-01T13:00:00.7+01:00", AnnotationCombinedPEM, "true",
	)
	r, err := Parse(svc, permissive())
	require.NoError(t, err)
	assert.Equal(t, Request{
		KeySource:  KeySourceSecret,
		SecretName: "web-tls",
		DNSNames:   []string{"*.apps.example.com", "a.web.shop.svc", "web.shop.svc", "web.shop.svc.cluster.local", "www.apps.example.com"},
		IPs:        []netip.Addr{netip.MustParseAddr("10.96.0.7"), netip.MustParseAddr("fd00::7")},
		Params:     Params{pki.Ed25519, 90 * time.Minute},
		Asked:      Params{pki.Ed25519, 90 * time.Minute},
		RenewAfter: created,
		Formats:    formats.Of(&formats.Combined),
	}, r)
}

func TestParseKeyAlgorithms(t *testing.T) {
	for _, a := range pki.KeyAlgorithms() {
		limits := DefaultLimits()
		_, err := Parse(service(AnnotationKeyAlgorithm, string(a)), limits)
		assert.Equal(t, a != pki.RSA4096, err == nil, a)
		if a != pki.RSA4096 {
			assert.Contains(t, otherAlgorithms, string(a))
		}
		limits.PermitRSA4096 = true
		r, err := Parse(service(AnnotationKeyAlgorithm, string(a)), limits)
		assert.NoError(t, err)
		assert.Equal(t, a, r.Params.KeyAlgorithm)
	}
}

func TestHeadless(t *testing.T) {
	svc := service(AnnotationClusterIPs, "true")
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	r, err := Parse(svc, permissive())
	require.NoError(t, err)
	assert.Equal(t, []string{"*.web.shop.svc", "*.web.shop.svc.cluster.local", "web.shop.svc", "web.shop.svc.cluster.local"}, r.DNSNames)
	assert.Empty(t, r.IPs, "None is no address")
}

func TestWants(t *testing.T) {
	name, ok := Wants(service())
	assert.True(t, ok)
	assert.Equal(t, "web-tls", name)
	plain := service()
	delete(plain.Annotations, AnnotationSecretName)
	_, ok = Wants(plain)
	assert.False(t, ok)
	leaving := service()
	leaving.DeletionTimestamp = &metav1.Time{Time: created}
	_, ok = Wants(leaving)
	assert.False(t, ok, "a Service that is being deleted asks for nothing")
}

// A Service requests formats by their words, and one of them also with "true". Any other value is an
// error, which does not affect the valid ones.
func TestFormatsOf(t *testing.T) {
	combined, keystore, der, roots := formats.Of(&formats.Combined), formats.Of(&formats.Keystore), formats.Of(&formats.DER), formats.OfRoots()
	pbmac1 := formats.Of(&formats.PBMAC1)
	all := combined | keystore | pbmac1 | der | roots
	require.Equal(t, all, formats.All())
	for _, c := range []struct {
		key, value      string
		asked, mistaken formats.Set
	}{
		{AnnotationCombinedPEM, "true", combined, 0},
		{AnnotationCombinedPEM, "false", 0, 0},
		{AnnotationCombinedPEM, "yes", 0, combined},
		{AnnotationCombinedPEM, "", 0, combined},
		{AnnotationCombinedPEM, "True", 0, combined},
		{AnnotationFormats, "keystore.p12", keystore, 0},
		{AnnotationFormats, "pbmac1", pbmac1, 0},
		{AnnotationFormats, " der, combined.pem,keystore.p12,der ", combined | keystore | der, 0},
		{AnnotationFormats, "ca.crt,truststore.p12", roots, 0},
		{AnnotationFormats, "der,tls-combined.pem", der, all &^ der},
		{AnnotationFormats, "", 0, all},
		{AnnotationFormats, "der,", der, all &^ der},
		{AnnotationFormats, "true", 0, all},
		{AnnotationFormats, strings.Repeat("der,", 30) + "der", 0, all},
		{AnnotationSecretName, "der", 0, 0},
	} {
		asked, mistaken := FormatsOf(service(c.key, c.value))
		assert.Equal(t, c.asked, asked, "%s %q", c.key, c.value)
		assert.Equal(t, c.mistaken, mistaken, "%s %q", c.key, c.value)
	}
}

// The password applies only to files that have one, and no error repeats an invalid one.
func TestPasswords(t *testing.T) {
	for _, c := range []struct{ formats, password, want, wrong string }{
		{"keystore.p12", "-", formats.DefaultPassword, ""},
		{"keystore.p12", "s3cret!", "s3cret!", ""},
		{"truststore.p12", "s3cret!", "s3cret!", ""},
		{"ca.crt", "s3cret!", "", ""},
		{"der", "s3cret!", "", ""},
		{"keystore.p12", "short", "", `"5 bytes": must be 6 to 128 bytes`},
		{"keystore.p12", strings.Repeat("x", 129), "", `"129 bytes": must be 6 to 128 bytes`},
		{"keystore.p12", strings.Repeat("x", 1000), "", `"1000 bytes": must be 6 to 128 bytes`},
		{"keystore.p12", "with space", "", "printable ASCII"},
		{"keystore.p12", "$(TLS_CA_FILE)", "", "printable ASCII"},
		{"keystore.p12", "päßword", "", "printable ASCII"},
	} {
		svc := service(AnnotationFormats, c.formats)
		if c.password != "-" {
			svc.Annotations[AnnotationKeystorePassword] = c.password
		}
		assert.Equal(t, c.want, PasswordOf(svc), c.password)
		r, err := Parse(svc, permissive())
		if c.wrong == "" {
			require.NoError(t, err)
			assert.Equal(t, c.want, r.Password)
			continue
		}
		require.ErrorContains(t, err, c.wrong)
		assert.NotContains(t, err.Error(), c.password)
	}
}

func TestParseRefuses(t *testing.T) {
	const tooLong = "a-name-that-is-longer-than-what-is-shown-of-it-and-goes-on-and-on-and-on-and-on-until-its-end"
	cases := []struct {
		name       string
		annotation string
		value      string
		change     func(*corev1.Service)
		field      string // if not the annotation
		want       string
	}{
		{name: "duration in words", annotation: AnnotationDuration, value: "abc", want: "must be a Go duration between 1h and 2160h, such as 720h"},
		{name: "unknown format", annotation: AnnotationFormats, value: "keystore.p12,pfx", want: `"pfx" is not a format: must be a comma-separated list of ca.crt, combined.pem, der, keystore.p12, pbmac1, truststore.p12`},
		{name: "a keystore of a post-quantum key", annotation: AnnotationFormats, value: "keystore.p12,der", change: func(s *corev1.Service) { s.Annotations[AnnotationKeyAlgorithm] = "MLDSA65" }, want: "keystore.p12 cannot be made of a key of type MLDSA65"},
		{name: "a proxy with a certificate of another signer", annotation: AnnotationKeySource, value: "pod", change: func(s *corev1.Service) {
			s.Annotations[AnnotationIssuer] = "external"
			s.Spec.Ports = []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}}
		}, want: "the proxy of targetPort sc-tls-8080 gets no certificate of another signer: must be secret with servingcert.dev/issuer: external"},
		{name: "a post-quantum key that a pod makes", annotation: AnnotationKeyAlgorithm, value: "MLDSA44", change: func(s *corev1.Service) { s.Annotations[AnnotationKeySource] = "pod" }, want: "kubelets do not make such keys"},
		{name: "no formats", annotation: AnnotationFormats, value: "", want: `"" is not a format`},
		{name: "JKS", annotation: AnnotationFormats, value: "keystore.jks", want: `"keystore.jks" is not supported: Java reads keystore.p12 (Java 8 since 8u301, Java 11 since 11.0.12)`},
		{name: "a keystore of a key that a pod makes", annotation: AnnotationFormats, value: "combined.pem,keystore.p12", change: func(s *corev1.Service) { s.Annotations[AnnotationKeySource] = "pod" }, want: "keystore.p12 cannot be made of a key that never leaves its pod"},
		{name: "the roots beside a key that a pod makes", annotation: AnnotationFormats, value: "ca.crt", change: func(s *corev1.Service) { s.Annotations[AnnotationKeySource] = "pod" }, want: "ca.crt is written into Secrets, but pods that make their keys have no Secret"},
		{name: "no duration", annotation: AnnotationDuration, value: "", want: "must be a Go duration"},
		{name: "days", annotation: AnnotationDuration, value: "30d", want: "must be a Go duration"},
		{name: "a negative duration", annotation: AnnotationDuration, value: "-1h", want: "must be between 1h and 2160h"},
		{name: "a short duration", annotation: AnnotationDuration, value: "1m", want: "must be between 1h and 2160h"},
		{name: "a second too short", annotation: AnnotationDuration, value: "59m59s", want: "must be between"},
		{name: "a long duration", annotation: AnnotationDuration, value: "99999h", want: "must be between 1h and 2160h"},
		{name: "a duration beyond int64", annotation: AnnotationDuration, value: "9999999999h", want: "must be a Go duration"},
		{name: "half a second", annotation: AnnotationDuration, value: "3600.5s", want: "whole seconds"},
		{name: "unknown algorithm", annotation: AnnotationKeyAlgorithm, value: "DSA", want: "must be one of ECDSAP256, "},
		{name: "a size that is not offered", annotation: AnnotationKeyAlgorithm, value: "RSA1024", want: "must be one of"},
		{name: "an algorithm in small letters", annotation: AnnotationKeyAlgorithm, value: "ecdsap256", want: "must be one of"},
		{name: "an algorithm that is not permitted", annotation: AnnotationKeyAlgorithm, value: "RSA4096", want: "not permitted: the signer was started without --permit-rsa4096, and such a key takes seconds to generate: must be ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA2048, RSA3072, MLDSA44 or MLDSA65"},
		{name: "no algorithm", annotation: AnnotationKeyAlgorithm, value: "", want: "must be one of"},
		{name: "no Secret name", annotation: AnnotationSecretName, value: "", want: "not a valid Secret name"},
		{name: "capitals", annotation: AnnotationSecretName, value: "Web", want: "not a valid Secret name"},
		{name: "underscore", annotation: AnnotationSecretName, value: "web_tls", want: "not a valid Secret name"},
		{name: "another namespace", annotation: AnnotationSecretName, value: "other/web-tls", want: "not a valid Secret name"},
		{name: "a path", annotation: AnnotationSecretName, value: "../web", want: "not a valid Secret name"},
		{name: "a space", annotation: AnnotationSecretName, value: "web tls", want: "not a valid Secret name"},
		{name: "254 characters", annotation: AnnotationSecretName, value: strings.Repeat("a", 254), want: "not a valid Secret name"},
		{name: "a host that is not permitted", annotation: AnnotationExtraDNSNames, value: "example.com", want: "not permitted: must be below web.shop.svc or web.shop.svc.cluster.local, or below a suffix that the signer permits for namespace \"shop\" (apps.example.com)"},
		{name: "another namespace's suffix", annotation: AnnotationExtraDNSNames, value: "a.teams.example.com", want: "not permitted"},
		{name: "a suffix's parent", annotation: AnnotationExtraDNSNames, value: "example.com", want: "not permitted"},
		{name: "a suffix without its dot", annotation: AnnotationExtraDNSNames, value: "myapps.example.com", want: "not permitted"},
		{name: "its own name without the dot", annotation: AnnotationExtraDNSNames, value: "myweb.shop.svc", want: "not permitted"},
		{name: "another Service", annotation: AnnotationExtraDNSNames, value: "db.shop.svc", want: "not permitted"},
		{name: "another Service's long name", annotation: AnnotationExtraDNSNames, value: "db.shop.svc.cluster.local", want: "not permitted"},
		{name: "another namespace's Service", annotation: AnnotationExtraDNSNames, value: "web.bank.svc", want: "not permitted"},
		{name: "the API server", annotation: AnnotationExtraDNSNames, value: "kubernetes.default.svc", want: "not permitted"},
		{name: "one label", annotation: AnnotationExtraDNSNames, value: "web", want: "not permitted"},
		{name: "two labels", annotation: AnnotationExtraDNSNames, value: "web.shop", want: "not permitted"},
		{name: "all Services", annotation: AnnotationExtraDNSNames, value: "*.svc", want: "not permitted"},
		{name: "all of the namespace", annotation: AnnotationExtraDNSNames, value: "*.shop.svc", want: "not permitted"},
		{name: "everything", annotation: AnnotationExtraDNSNames, value: "*", want: "a wildcard must be the whole first label"},
		{name: "a wildcard in the middle", annotation: AnnotationExtraDNSNames, value: "a.*.apps.example.com", want: "a wildcard must be the whole first label"},
		{name: "a part of a label", annotation: AnnotationExtraDNSNames, value: "a*.apps.example.com", want: "a wildcard must be the whole first label"},
		{name: "two wildcards", annotation: AnnotationExtraDNSNames, value: "*.*.apps.example.com", want: "a wildcard must be the whole first label"},
		{name: "a wildcard of nothing", annotation: AnnotationExtraDNSNames, value: "*.", want: "not a valid DNS name"},
		{name: "IPv4", annotation: AnnotationExtraDNSNames, value: "10.96.0.7", want: "is an IP address: must be a DNS name"},
		{name: "IPv6", annotation: AnnotationExtraDNSNames, value: "fd00::7", want: "is an IP address: must be a DNS name"},
		{name: "IPv6 in brackets", annotation: AnnotationExtraDNSNames, value: "[::1]", want: "is an IP address: must be a DNS name"},
		{name: "capitals in a name", annotation: AnnotationExtraDNSNames, value: "A.web.shop.svc", want: "not a valid DNS name"},
		{name: "no name", annotation: AnnotationExtraDNSNames, value: "", want: "contains an empty name"},
		{name: "an empty name", annotation: AnnotationExtraDNSNames, value: "a.web.shop.svc,,b.web.shop.svc", want: "contains an empty name"},
		{name: "a comma at the end", annotation: AnnotationExtraDNSNames, value: "a.web.shop.svc,", want: "contains an empty name"},
		{name: "a dot at the end", annotation: AnnotationExtraDNSNames, value: "a.web.shop.svc.", want: "not a valid DNS name"},
		{name: "an empty label", annotation: AnnotationExtraDNSNames, value: "a..web.shop.svc", want: "not a valid DNS name"},
		{name: "a space in a name", annotation: AnnotationExtraDNSNames, value: "a b.web.shop.svc", want: "not a valid DNS name"},
		{name: "a URI", annotation: AnnotationExtraDNSNames, value: "https://a.web.shop.svc", want: "not a valid DNS name"},
		{name: "a port", annotation: AnnotationExtraDNSNames, value: "a.web.shop.svc:443", want: "not a valid DNS name"},
		{name: "a label of 64", annotation: AnnotationExtraDNSNames, value: strings.Repeat("a", 64) + ".web.shop.svc", want: "must be at most 63 characters"},
		{name: "254 characters in a name", annotation: AnnotationExtraDNSNames, value: strings.Repeat("a.", 121) + "web.shop.svc", want: "253"},
		{name: "too long with its wildcard", annotation: AnnotationExtraDNSNames, value: "*." + strings.Repeat("a.", 120) + "web.shop.svc", want: "must be at most 253 characters"},
		{name: "too many names", annotation: AnnotationExtraDNSNames, value: names(99), want: "must be at most 100, including those of the Service itself"},
		{name: "no bool", annotation: AnnotationClusterIPs, value: "yes", want: `must be "true" or "false"`},
		{name: "an empty bool", annotation: AnnotationClusterIPs, value: "", want: `must be "true" or "false"`},
		{name: "a bool in capitals", annotation: AnnotationClusterIPs, value: "True", want: `must be "true" or "false"`},
		{name: "no bool for one file", annotation: AnnotationCombinedPEM, value: "yes", want: `must be "true" or "false"`},
		{name: "an empty bool for one file", annotation: AnnotationCombinedPEM, value: "", want: `must be "true" or "false"`},
		{name: "a date", annotation: AnnotationRenewAfter, value: "2026-03-01", want: "must be RFC 3339"},
		{name: "now", annotation: AnnotationRenewAfter, value: "now", want: "must be RFC 3339"},
		{name: "no time", annotation: AnnotationRenewAfter, value: "", want: "must be RFC 3339"},
		{name: "a host outside", change: func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		}, field: "spec.type", want: "must be ClusterIP, NodePort or LoadBalancer"},
		{name: "everybody's Secret", annotation: AnnotationSecretName, value: "serving-cert", change: func(s *corev1.Service) { s.Spec.Selector = nil }, want: "only if it has a selector"},
		{name: "a long value", annotation: AnnotationKeyAlgorithm, value: tooLong, want: "…"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			svc := service()
			if c.annotation != "" {
				svc.Annotations[c.annotation] = c.value
			}
			if c.change != nil {
				c.change(svc)
			}
			r, err := Parse(svc, permissive())
			var field *FieldError
			require.ErrorAs(t, err, &field)
			assert.Contains(t, err.Error(), c.want)
			if c.field == "" {
				c.field = c.annotation
			}
			assert.Equal(t, c.field, field.Field, "the error names where")
			assert.True(t, strings.HasPrefix(err.Error(), c.field+": "))
			assert.NotContains(t, err.Error(), "\n", "one line")
			assert.Less(t, len(err.Error()), 1000)
			assert.Equal(t, Request{}, r, "nothing of a wrong request is used")
			assert.Equal(t, err, Problems(svc, permissive())[0])
		})
	}
}

// names returns n different names below shop/web.
func names(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("n%d.web.shop.svc", i))
	}
	return strings.Join(all, ",")
}

func TestParseAtTheLimits(t *testing.T) {
	for name, svc := range map[string]*corev1.Service{
		"a hundred names":                    service(AnnotationExtraDNSNames, names(98)),
		"the shortest":                       service(AnnotationDuration, "1h"),
		"the longest":                        service(AnnotationDuration, "2160h"),
		"serving-cert with a selector":       service(AnnotationSecretName, "serving-cert"),
		"a name with dots":                   service(AnnotationSecretName, "web.tls"),
		"the suffix itself":                  service(AnnotationExtraDNSNames, "apps.example.com"),
		"a name of 63":                       service(AnnotationExtraDNSNames, strings.Repeat("a", 63)+".web.shop.svc"),
		"no addresses asked for":             service(AnnotationClusterIPs, "false"),
		"an annotation that is no one's":     service("servingcert.dev/other", "x"),
		"a wildcard below its own long name": service(AnnotationExtraDNSNames, "*.web.shop.svc.cluster.local"),
	} {
		_, err := Parse(svc, permissive())
		assert.NoError(t, err, name)
	}
}

func TestClusterIPsNeedAPermission(t *testing.T) {
	_, err := Parse(service(AnnotationClusterIPs, "true"), DefaultLimits())
	assert.ErrorContains(t, err, "--permit-cluster-ips")
	_, err = Parse(service(AnnotationClusterIPs, "false"), DefaultLimits())
	assert.NoError(t, err)
}

func TestParseSuffixRule(t *testing.T) {
	for _, s := range []string{"*=apps.example.com", "team-*=example.com", "shop=localhost", "[ab]?=x.y", "shop=mysvc", "shop=cluster.local.example.com"} {
		rule, err := ParseSuffixRule(s, "cluster.local")
		require.NoError(t, err, s)
		assert.Equal(t, s, rule.String())
	}
	for s, want := range map[string]string{
		"":                       "must be NAMESPACE-GLOB=SUFFIX",
		"apps.example.com":       "must be NAMESPACE-GLOB=SUFFIX",
		"=apps.example.com":      "must be NAMESPACE-GLOB=SUFFIX",
		"shop=":                  "must be NAMESPACE-GLOB=SUFFIX",
		"[=apps.example.com":     "is not valid: syntax error in pattern",
		"team-[a=x.example.com":  "is not valid: syntax error in pattern",
		"shop=*.example.com":     "not a valid DNS name",
		"shop=.example.com":      "not a valid DNS name",
		"shop=example.com.":      "not a valid DNS name",
		"shop=Example.com":       "not a valid DNS name",
		"shop=a=b":               "not a valid DNS name",
		"shop=10.0.0.1":          "is an IP address: must be a DNS name",
		"shop=svc":               "overlaps",
		"shop=x.svc":             "overlaps",
		"shop=cluster.local":     "overlaps",
		"shop=svc.cluster.local": "overlaps",
		"shop=local":             "overlaps",
	} {
		_, err := ParseSuffixRule(s, "cluster.local")
		assert.ErrorContains(t, err, want, s)
		assert.ErrorContains(t, err, fmt.Sprintf("%q", s), "the error shows what was given")
	}
}

func TestConstraints(t *testing.T) {
	assert.Equal(t, pki.Constraints{PermittedDNS: []string{"cluster.local", "svc"}}, DefaultLimits().Constraints())
	assert.Equal(t, pki.Constraints{PermittedDNS: []string{"apps.example.com", "cluster.local", "svc", "teams.example.com"}, PermitIPs: true}, permissive().Constraints())
}

// drawnName is a name as a user might write it, right or wrong.
func drawnName(t *rapid.T) string {
	label := rapid.SampledFrom([]string{"*", "a", "web", "shop", "svc", "db", "cluster", "local", "apps", "example", "com", "10", "A", "", "a*"})
	tail := rapid.SampledFrom([]string{"", ".web.shop.svc", ".web.shop.svc.cluster.local", ".apps.example.com", ".shop.svc", ".teams.example.com"})
	return strings.Join(rapid.SliceOfN(label, 1, 3).Draw(t, "labels"), ".") + tail.Draw(t, "tail")
}

// Accepted names are the Service's own or permitted, and a CA with the constraints of
// the same limits permits them.
func TestWhatIsParsedIsPermittedByTheCA(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	limits := permissive()
	root, err := pki.NewRoot(key, 1, limits.Constraints(), created, created.Add(24*time.Hour))
	require.NoError(t, err)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		var extra []string
		for range rapid.IntRange(1, 3).Draw(t, "how many") {
			extra = append(extra, drawnName(t))
		}
		svc := service(AnnotationExtraDNSNames, strings.Join(extra, ","), AnnotationClusterIPs, "true")
		if rapid.Bool().Draw(t, "headless") {
			svc.Spec.ClusterIP, svc.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		}
		r, err := Parse(svc, permissive())
		if err != nil {
			var field *FieldError
			require.ErrorAs(t, err, &field)
			return
		}
		accepted++
		require.True(t, slices.IsSorted(r.DNSNames))
		for _, name := range r.DNSNames {
			own := false
			for _, domain := range []string{"web.shop.svc", "web.shop.svc.cluster.local", "apps.example.com"} {
				own = own || name == domain || strings.HasSuffix(name, "."+domain)
			}
			require.True(t, own, "%s was let through", name)
		}
		require.NoError(t, pki.VerifyServing(leafFor(t, r, root, key), nil, root, created.Add(time.Minute)))
	})
	require.Positive(t, accepted, "something must have been let through")
}

func leafFor(t require.TestingT, r Request, root *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), DNSNames: r.DNSNames, NotBefore: created, NotAfter: created.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, ip := range r.IPs {
		template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, root, key.Public(), key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return leaf
}
