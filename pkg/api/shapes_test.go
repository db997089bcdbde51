package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// repeated returns a list of n equal entries.
func repeated(entry string, n int) string {
	return strings.TrimSuffix(strings.Repeat(entry+",", n), ",")
}

// long is a value that is longer than any annotation may be.
var long = strings.Repeat("1", 200<<10)

// TestShapes: values at the limits of each shape, on both sides.
func TestShapes(t *testing.T) {
	label, without := strings.Repeat("a", 63), Shapes()
	delete(without, AnnotationKeyFlag) // as AnnotationCertFlag
	for key, values := range map[string]struct{ accepted, refused []string }{
		AnnotationSecretName: {
			[]string{"web-tls", "web.tls", "serving-cert", strings.Repeat("a", 253)},
			[]string{"", "Web", "other/web-tls", "web_tls", "web-", "-web", "web..tls", "web\n", strings.Repeat("a", 254), long},
		},
		AnnotationDuration: {
			[]string{"720h", "90m", "1h30m0.000s", "+1.5h", ".5h1h", "3600000000µs", "3600000000μs", "-720h", "9999999999h", strings.Repeat("0", 62) + "2h"},
			[]string{"30d", "720", "720 h", ".h", "h", "", "P30D", "1h\n", strings.Repeat("1h", 33), long},
		},
		AnnotationRenewAfter: {
			[]string{
				"2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456789+01:00", "2026-01-31T12:00:00,5Z", "2026-01-31T1:00:00Z", "2028-02-29T23:59:59-23:59",
				"2026-02-30T12:00:00Z", "2026-01-31T12:00:00+99:00",
			},
			[]string{
				"2026-13-01T12:00:00Z", "2026-01-32T12:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z", "2026-01-31T12:00:60Z", "2026-01-31t12:00:00z", "2026-01-31 12:00:00Z",
				"2026-01-31T12:00:00", "2026-01-31", "now", "", "2026-01-31T12:00:00." + strings.Repeat("0", 60) + "Z",
			},
		},
		AnnotationKeyAlgorithm: {[]string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA2048", "RSA3072", "RSA4096"}, []string{"RSA1024", "ecdsap256", ""}},
		AnnotationExtraDNSNames: {
			[]string{"a.web.shop.svc", " a.web.shop.svc , *.web.shop.svc", label + ".x", "example.com", "1.2.3.256", "01.2.3.4", repeated("a", 100), "*." + strings.Repeat("a.", 125) + "x"},
			[]string{
				"", ",", "a.x,", "A.x", "a b.x", "a..x", "-a.x", "https://a.x", "a.x:443", "ä.x", "*.", "*", "a.*.x", "*.*.x", "a*.x", label + "a.x",
				strings.Repeat("a.", 130) + "x", "*." + strings.Repeat("a.", 126) + "x", "10.96.0.7", "a.x,255.255.255.255", "0.0.0.0", "fd00::7",
				repeated("a", 101), strings.Repeat(",", 100<<10), strings.Repeat("a", 25601),
			},
		},
		AnnotationKeySource:        {[]string{"pod", "secret"}, []string{"kubelet", ""}},
		AnnotationIssuer:           {[]string{"servingcert", "external"}, []string{"cert-manager", ""}},
		AnnotationClusterIPs:       {[]string{"true", "false"}, []string{"yes", "True", ""}},
		AnnotationCombinedPEM:      {[]string{"true", "false"}, []string{"yes", "True", "1", ""}},
		AnnotationBackendTLSPolicy: {[]string{"true", "false"}, []string{"yes", "True", ""}},
		AnnotationMode:             {[]string{"args", "env", "mount"}, []string{"flags", "", "env\n", "xenv"}},
		AnnotationHTTPSProbes:      {[]string{"auto", "true", "false"}, []string{"yes", ""}},
		AnnotationOnRotate:         {[]string{"reload", "restart", "none"}, []string{"Restart", ""}},
		AnnotationTrust:            {[]string{"false", "true", "env"}, []string{"1", ""}},
		AnnotationIdentity:         {[]string{"false", "true"}, []string{"1", "env", ""}},
		AnnotationFormats: {
			[]string{"ca.crt,combined.pem, der,keystore.p12,truststore.p12", "pbmac1", repeated("der", 16)},
			[]string{"", "keystore.jks", "p12", "caxcrt", "der,", repeated("der", 17)},
		},
		AnnotationKeystorePassword: {
			[]string{"s3cret!", strings.Repeat("x", 6), strings.Repeat("x", 128), "!#%~AZ"},
			[]string{"short", "", strings.Repeat("x", 129), "with space", "$(TLS_CA_FILE)", "pässword", "delete\x7f"},
		},
		AnnotationContainers: {
			[]string{"web, side-car", "a", label, repeated("c", 100)},
			[]string{"", "web,", "web.1", "Web", "-a", "a-", label + "a", repeated("c", 101), strings.Repeat("a", 6401)},
		},
		AnnotationCertFlag: {
			[]string{"-c", "--" + strings.Repeat("a", 100), "--key.file_1"},
			[]string{"--" + strings.Repeat("a", 101), "--cert=x", "cert", "---c", "$(X)", "--c\n", "", "--key file", long},
		},
		AnnotationMountPath: {
			[]string{
				"/certs", "/etc/tls/", "/var/lib/x", "/Schlüssel für x", "//opt//./tls", "/sysx", "/etcx", "/.etc", "/etc..", "/" + strings.Repeat("a", 511),
				"/x/../certs", "/x/../etc", "/dev/../x", "/dev/x/../../y", "/run/secrets/kubernetes.io/x", "/run/secrets/kubernetesxio",
			},
			[]string{
				"", "certs", "./certs", "/" + strings.Repeat("a", 512), "/" + strings.Repeat("ü", 256), "/a:b", "/$(X)", `/a\b`, "/a\nb", "/a\x7fb", "/a\tb",
				"/", "//", "/.", "/./", "/etc", "//etc/./", "/etc/.", "/usr/bin/", "/usr//./bin", "/var/run/secrets/kubernetes.io",
				"/dev/x", "/proc/1", "/sys/./fs", "/dev/.x", "/dev/..x", "/dev/...", "/run/secrets/kubernetes.io/serviceaccount", "//var/run/secrets/kubernetes.io/serviceaccount/x",
			},
		},
		AnnotationProxyProtocol: {
			[]string{"8081", " 1 ,65535, 8081,8081", repeated(" 65535 ", 16), "9999", "60000", "64999", "65499", "65529"},
			[]string{
				"", "8081,", "0", "65536", "65540", "65600", "66000", "70000", "100000", "99999999999999999999", "08081", "+8081", "8_081", "http", "true", "8081;8082",
				repeated("1", 17), repeated("    65535    ", 16), long,
			},
		},
		AnnotationProxyResources: {
			[]string{DefaultProxyResources, " limits.cpu=8 , requests.cpu=0.001", "requests.memory=4294967296,limits.memory=4Gi", "requests.cpu=0"},
			[]string{
				"", "cpu=1", "limits.cpu", "limits.cpu=", "limits.cpu=1=1", "limits.cpu=1 Gi", "limits.cpu=1,", "limits.nvidia.com/gpu=1", "limits.cpu=1;limits.memory=1Gi",
				"limits.cpu=1e9", "limits.cpu=1e999999999", "limits.cpu=1E", repeated("limits.cpu=1", 5), "limits.cpu=" + long,
			},
		},
		AnnotationConnect: {
			[]string{"api", " api , db.data", "*", "api:80,db.data:65535,*", "1web.2ns", repeated("api", MaxConnects), label + "." + label + ":1"},
			[]string{
				"", ",", "API", "a.b.c", "api:", "api:0", "api:65536", "api:http", "*:80", "*.data", "-api", "api-", "http://api", "api 80", label + "a",
				repeated("api", MaxConnects+1), strings.Repeat(",", 100<<10), long,
			},
		},
		AnnotationClients: {
			[]string{"shop/cart", " shop/cart , monitoring/*", "*/prometheus", "*/*", "any", "watch, any", "1ns/a.b", repeated("a/b", MaxClientEntries), label + "/" + strings.Repeat("a", 253)},
			[]string{
				"", ",", "cart", "shop/", "/cart", "shop/cart/x", "Shop/cart", "shop/Cart", "shop/c*", "sh*/cart", "shop/a..b", "shop/a.-b", "shop/" + strings.Repeat("a", 254), "any/cart/", "*", "spiffe://x/ns/shop/sa/cart",
				"shop.x/cart", label + "a/cart", repeated("a/b", MaxClientEntries+1), long, "shop/cart;x=any", "shop/cart\nany",
			},
		},
		AnnotationProbe: {
			[]string{"443=postgres", " 443=smtp ", "443=xmpp-server,443=xmpp-server", repeated("  443=xmpp-server ", 16), "80=smtp", label + "=smtp"},
			[]string{
				"", "443", "443=", "=smtp", "443=ftp", "443=smtp,", "443=SMTP", "443 =smtp", "443==smtp", label + "a=smtp",
				repeated("443=smtp", 17), repeated("     443=xmpp-server     ", 16) + strings.Repeat(" ", 200), long,
			},
		},
	} {
		shape := Shapes()[key]
		isAccepted := func(value string) bool { // as the API server decides, without the explanation
			shape.explain = nil
			return shape.Check(value) == ""
		}
		for _, value := range values.accepted {
			assert.True(t, isAccepted(value), "%s=%q", key, Shorten(value, 80))
		}
		for _, value := range values.refused {
			assert.False(t, isAccepted(value), "%s=%q", key, Shorten(value, 80))
			assert.NotEmpty(t, checkShape(key, value), "%s=%q", key, Shorten(value, 80))
		}
		delete(without, key)
	}
	assert.Empty(t, without, "add values")
}
