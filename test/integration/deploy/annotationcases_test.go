package deploy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Words of refusals.
const (
	trueOrFalse  = `must be "true" or "false"`
	noSecretName = "not a valid Secret name"
	noFlag       = "not a valid flag name"
	noTime       = "not a valid time: must be RFC 3339"
	oneOfModes   = `must be "args", "env" or "mount"`
	oneOfFormats = "must be a comma-separated list of ca.crt, combined.pem, der, keystore.p12, pbmac1, truststore.p12"
	absolutePath = "must be the absolute path of a separate directory"
	wouldHide    = "would hide"
	nothingIn    = "nothing can be mounted in"
	hasColon     = "contains a colon, a dollar sign"
	sameFlag     = "is also the flag of the certificate"
	isAddress    = "is an IP address: must be a DNS name"
	wildcard     = "a wildcard must be the whole first label"
	portNumbers  = "must be a comma-separated list of numbers of ports, each from 1 to 65535"
	pairs        = "PORT=PROTOCOL"
	someAmounts  = "must be a comma-separated list of requests.cpu, requests.memory, limits.cpu and limits.memory"
	containerSet = "must be a comma-separated list of container names"
	outside      = "refers to a host outside the cluster, which cannot get a certificate"
	hasSelector  = "a Service may use this name only if it has a selector"
)

// annotationCases are the values about which the policies and the parsers must agree.
func annotationCases() []annotationCase {
	var cases []annotationCase
	for _, some := range [][]annotationCase{serviceCases(), nameCases(), timeCases(), podCases(), targetCases()} {
		cases = append(cases, some...)
	}
	for _, on := range []string{"Service", "Namespace", "Deployment"} {
		for _, c := range settingCases() {
			c.on = on
			cases = append(cases, c)
		}
	}
	return cases
}

// repeated returns a list of n equal entries.
func repeated(entry string, n int) string {
	return strings.TrimSuffix(strings.Repeat(entry+",", n), ",")
}

func serviceCases() []annotationCase {
	bools := func(key string) []annotationCase {
		return []annotationCase{
			{on: "Service", key: key, value: "false"},
			{on: "Service", key: key, value: "yes", words: trueOrFalse},
			{on: "Service", key: key, value: "True", words: trueOrFalse},
			{on: "Service", key: key, value: "", words: trueOrFalse},
		}
	}
	cases := slices.Concat(bools(api.AnnotationClusterIPs), bools(api.AnnotationCombinedPEM), bools(api.AnnotationBackendTLSPolicy))
	for _, algorithm := range []string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA2048", "RSA3072"} {
		cases = append(cases, annotationCase{on: "Service", key: api.AnnotationKeyAlgorithm, value: algorithm})
	}
	for value, words := range map[string]string{
		"443=postgres": "", " 443=smtp ": "", "443=xmpp-server,443=xmpp-server": "", repeated("  443=xmpp-server ", 16): "",
		"": pairs, "443": pairs, "443=": pairs, "=smtp": pairs, "443=ftp": pairs, "443=smtp,": pairs, "443=SMTP": pairs, "443 =smtp": pairs, "443==smtp": pairs,
		repeated("443=smtp", 17): "must be at most 16", repeated("     443=xmpp-server     ", 16) + strings.Repeat(" ", 200): "480", strings.Repeat("1", 200<<10): "480",
	} {
		cases = append(cases, annotationCase{on: "Service", key: api.AnnotationProbe, value: value, words: words})
	}
	cases = append(cases, annotationCase{on: "Service", key: api.AnnotationProbe, value: "80=smtp", left: true}) // not its port
	external := func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	}
	selectsNone := func(s *corev1.Service) { s.Spec.Selector = nil }
	return append(cases, []annotationCase{
		{on: "Service", key: api.AnnotationClusterIPs, value: "true", left: true}, // by --permit-cluster-ips
		{on: "Service", key: api.AnnotationCombinedPEM, value: "true"},
		{on: "Service", key: api.AnnotationFormats, value: "ca.crt,combined.pem, der,keystore.p12,truststore.p12"},
		{on: "Service", key: api.AnnotationBackendTLSPolicy, value: "true"},
		{on: "Service", key: api.AnnotationFormats, value: "", words: oneOfFormats},
		{on: "Service", key: api.AnnotationFormats, value: "keystore.jks", words: oneOfFormats},
		{on: "Service", key: api.AnnotationFormats, value: strings.Repeat("der,", 16) + "der", words: "servingcert.dev/formats"},
		{on: "Service", key: api.AnnotationKeystorePassword, value: "s3cret!"},
		{on: "Service", key: api.AnnotationKeystorePassword, value: "short", words: "must be 6 to 128 bytes"},
		{on: "Service", key: api.AnnotationKeystorePassword, value: strings.Repeat("x", 129), words: "must be 6 to 128 bytes"},
		{on: "Service", key: api.AnnotationKeystorePassword, value: "with space", words: "printable ASCII"},
		{on: "Service", key: api.AnnotationKeystorePassword, value: "$(TLS_CA_FILE)", words: "printable ASCII"},
		{on: "Service", key: api.AnnotationKeyAlgorithm, value: "RSA4096", left: true}, // by --permit-rsa4096
		{on: "Service", key: api.AnnotationKeySource, value: "pod"},
		{on: "Service", key: api.AnnotationKeySource, value: "secret"},
		{on: "Service", key: api.AnnotationKeySource, value: "kubelet", words: `must be "secret" or "pod"`},
		{on: "Service", key: api.AnnotationKeySource, value: "", words: `must be "secret" or "pod"`},
		{on: "Service", key: api.AnnotationKeyAlgorithm, value: "RSA1024", words: "must be one of ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA2048"},
		{on: "Service", key: api.AnnotationKeyAlgorithm, value: "ecdsap256", words: "unknown key algorithm"},
		{on: "Service", key: api.AnnotationKeyAlgorithm, value: "", words: "unknown key algorithm"},
		{on: "Service", key: api.AnnotationSecretName, value: "web-tls"},
		{on: "Service", key: api.AnnotationSecretName, value: "web.tls"},
		{on: "Service", key: api.AnnotationSecretName, value: "serving-cert"},
		{on: "Service", key: api.AnnotationSecretName, value: strings.Repeat("a", 253)},
		{on: "Service", key: api.AnnotationSecretName, value: strings.Repeat("a", 254), words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: strings.Repeat("a", 200<<10), words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: "", words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: "Web", words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: "other/web-tls", words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: "web_tls", words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: "web-", words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: "web..tls", words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: "web\n", words: noSecretName},
		{on: "Service", key: api.AnnotationSecretName, value: "web-tls", service: external, words: outside, names: "spec.type"},
		{on: "Service", key: api.AnnotationSecretName, value: "serving-cert", service: selectsNone, words: hasSelector},
		{on: "Service", key: api.AnnotationSecretName, value: "web-tls", service: selectsNone},
	}...)
}

func nameCases() []annotationCase {
	label, names := strings.Repeat("a", 63), func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = strings.Repeat("a", i%60+1) + ".web.%s.svc"
		}
		return strings.Join(list, ",")
	}
	cases := []annotationCase{
		{value: "a.web.%s.svc"},
		{value: " a.web.%s.svc , *.web.%s.svc.cluster.local"},
		{value: label + ".web.%s.svc"},
		{value: names(97)},
		{value: "example.com", left: true}, // by --permit-dns-suffix
		{value: "1.2.3.256", left: true},   // no address, and as a name not permitted
		{value: "01.2.3.4", left: true},
		{value: "", words: "names"},
		{value: ",", words: "names"},
		{value: "a.web.%s.svc,", words: "names"},
		{value: "A.web.%s.svc", words: "DNS name"},
		{value: "a b.web.%s.svc", words: "DNS name"},
		{value: "a..web.%s.svc", words: "DNS name"},
		{value: "-a.web.%s.svc", words: "DNS name"},
		{value: "https://a.web.%s.svc", words: "DNS name"},
		{value: "a.web.%s.svc:443", words: "DNS name"},
		{value: "ä.web.%s.svc", words: "DNS name"},
		{value: "*.", words: "DNS name"},
		{value: "*", words: wildcard},
		{value: "a.*.web.%s.svc", words: wildcard},
		{value: "*.*.web.%s.svc", words: wildcard},
		{value: label + "a.web.%s.svc", words: "characters"},
		{value: strings.Repeat("a.", 130) + "web.%s.svc", words: "253"},
		{value: "*." + strings.Repeat("a.", 126) + "x", words: "253"},
		{value: "10.96.0.7", words: isAddress},
		{value: "a.web.%s.svc,255.255.255.255", words: isAddress},
		{value: "0.0.0.0", words: isAddress},
		{value: "fd00::7", words: "must be a"}, // a policy sees no name, the parser an address
		{value: names(101), words: "must be at most 100"},
		{value: strings.Repeat(",", 100<<10), words: "must be at most"},
		{value: strings.Repeat("a", 25601), words: "25600"},
	}
	for i := range cases {
		cases[i].on, cases[i].key = "Service", api.AnnotationExtraDNSNames
	}
	return cases
}

func timeCases() []annotationCase {
	const noDuration = "must be a Go duration"
	cases := []annotationCase{
		{key: api.AnnotationDuration, value: "720h"},
		{key: api.AnnotationDuration, value: "90m"},
		{key: api.AnnotationDuration, value: "1h30m0.000s"},
		{key: api.AnnotationDuration, value: "+1.5h"},
		{key: api.AnnotationDuration, value: ".5h1h"},
		{key: api.AnnotationDuration, value: "3600000000µs"},
		{key: api.AnnotationDuration, value: "3600000000μs"},
		{key: api.AnnotationDuration, value: "0000000000000000000000000000000000000000000000000000000000002h"},
		{key: api.AnnotationDuration, value: "30m", left: true}, // by --min-duration and --max-duration
		{key: api.AnnotationDuration, value: "99999h", left: true},
		{key: api.AnnotationDuration, value: "9999999999h", left: true}, // more than a duration can hold
		{key: api.AnnotationDuration, value: "14m59s", words: "must be between"},
		{key: api.AnnotationDuration, value: "-720h", words: "must be between"},
		{key: api.AnnotationDuration, value: "30d", words: noDuration},
		{key: api.AnnotationDuration, value: "720", words: noDuration},
		{key: api.AnnotationDuration, value: "720 h", words: noDuration},
		{key: api.AnnotationDuration, value: ".h", words: noDuration},
		{key: api.AnnotationDuration, value: "h", words: noDuration},
		{key: api.AnnotationDuration, value: "", words: noDuration},
		{key: api.AnnotationDuration, value: "P30D", words: noDuration},
		{key: api.AnnotationDuration, value: "1h\n", words: noDuration},
		{key: api.AnnotationDuration, value: strings.Repeat("1h", 33), words: "at most 64"},
		{key: api.AnnotationDuration, value: strings.Repeat("1h", 100<<10), words: "at most 64"},
		{key: api.AnnotationDuration, value: "3600.5s", words: "must be in whole seconds"},
		{key: api.AnnotationDuration, value: "1h1ns", words: "must be in whole seconds"},

		{key: api.AnnotationRenewAfter, value: "2026-01-31T12:00:00Z"},
		{key: api.AnnotationRenewAfter, value: "2026-01-31T12:00:00.123456789+01:00"},
		{key: api.AnnotationRenewAfter, value: "2026-01-31T12:00:00,5Z"},
		{key: api.AnnotationRenewAfter, value: "2026-01-31T1:00:00Z"},
		{key: api.AnnotationRenewAfter, value: "2028-02-29T23:59:59-23:59"},
		{key: api.AnnotationRenewAfter, value: "2026-02-30T12:00:00Z", left: true}, // the length of months
		{key: api.AnnotationRenewAfter, value: "2026-01-31T12:00:00+99:00", left: true},
		{key: api.AnnotationRenewAfter, value: "2026-13-01T12:00:00Z", words: noTime},
		{key: api.AnnotationRenewAfter, value: "2026-01-32T12:00:00Z", words: noTime},
		{key: api.AnnotationRenewAfter, value: "2026-01-31T24:00:00Z", words: noTime},
		{key: api.AnnotationRenewAfter, value: "2026-01-31T12:00:60Z", words: noTime},
		{key: api.AnnotationRenewAfter, value: "2026-01-31t12:00:00z", words: noTime},
		{key: api.AnnotationRenewAfter, value: "2026-01-31 12:00:00Z", words: noTime},
		{key: api.AnnotationRenewAfter, value: "2026-01-31T12:00:00", words: noTime},
		{key: api.AnnotationRenewAfter, value: "2026-01-31", words: noTime},
		{key: api.AnnotationRenewAfter, value: "now", words: noTime},
		{key: api.AnnotationRenewAfter, value: "", words: noTime},
		{key: api.AnnotationRenewAfter, value: "2026-01-31T12:00:00." + strings.Repeat("0", 60) + "Z", words: "at most 64"},
	}
	for i := range cases {
		cases[i].on = "Service"
	}
	return cases
}

// settingCases are those of the annotations that a Service, a namespace and a pod may have.
func settingCases() []annotationCase {
	cases := []annotationCase{
		{key: api.AnnotationContainers, value: "web, side-car"},
		{key: api.AnnotationContainers, value: repeated("c", 100)},
		{key: api.AnnotationContainers, value: "", words: containerSet},
		{key: api.AnnotationContainers, value: "web,", words: containerSet},
		{key: api.AnnotationContainers, value: "web.1", words: containerSet},
		{key: api.AnnotationContainers, value: strings.Repeat("a", 64), words: containerSet},
		{key: api.AnnotationContainers, value: repeated("c", 101), words: "must be at most 100"},
		{key: api.AnnotationContainers, value: strings.Repeat("a", 6401), words: "6400"},
		{key: api.AnnotationMode, value: "args"},
		{key: api.AnnotationMode, value: "env"},
		{key: api.AnnotationMode, value: "mount"},
		{key: api.AnnotationMode, value: "flags", words: oneOfModes},
		{key: api.AnnotationMode, value: "", words: oneOfModes},
		{key: api.AnnotationCertFlag, value: "-c"},
		{key: api.AnnotationCertFlag, value: "--" + strings.Repeat("a", 100)},
		{key: api.AnnotationCertFlag, value: "--" + strings.Repeat("a", 101), words: noFlag},
		{key: api.AnnotationCertFlag, value: "--cert=x", words: noFlag},
		{key: api.AnnotationCertFlag, value: "cert", words: noFlag},
		{key: api.AnnotationCertFlag, value: "---c", words: noFlag},
		{key: api.AnnotationCertFlag, value: "$(X)", words: noFlag},
		{key: api.AnnotationCertFlag, value: "--c\n", words: noFlag},
		{key: api.AnnotationKeyFlag, value: "--key.file_1"},
		{key: api.AnnotationKeyFlag, value: "", words: noFlag},
		{key: api.AnnotationKeyFlag, value: "--key file", words: noFlag},
		{key: api.AnnotationKeyFlag, value: "--tls-cert-file", words: sameFlag},
		{key: api.AnnotationCertFlag, value: "--tls-private-key-file", words: sameFlag, names: api.AnnotationKeyFlag},
		{key: api.AnnotationCertFlag, value: "--pem", beside: map[string]string{api.AnnotationKeyFlag: "--pem"}, words: sameFlag, names: api.AnnotationKeyFlag},
		{key: api.AnnotationCertFlag, value: "--tls-private-key-file", beside: map[string]string{api.AnnotationKeyFlag: "--tls-cert-file"}},
		{key: api.AnnotationHTTPSProbes, value: "auto"},
		{key: api.AnnotationHTTPSProbes, value: "true"},
		{key: api.AnnotationHTTPSProbes, value: "false"},
		{key: api.AnnotationHTTPSProbes, value: "yes", words: `must be "auto", "true" or "false"`},
		{key: api.AnnotationTrust, value: "false"},
		{key: api.AnnotationTrust, value: "true"},
		{key: api.AnnotationTrust, value: "env"},
		{key: api.AnnotationTrust, value: "1", words: `must be "false", "true" or "env"`},
		{key: api.AnnotationProxyProtocol, value: "8081"},
		{key: api.AnnotationProxyProtocol, value: " 1 ,65535, 8081,8081"},
		{key: api.AnnotationProxyProtocol, value: repeated(" 65535 ", 16)},
		{key: api.AnnotationProxyProtocol, value: repeated("1", 17), words: "must be at most 16"},
		{key: api.AnnotationProxyProtocol, value: repeated("    65535    ", 16), words: "128"},
		{key: api.AnnotationProxyProtocol, value: strings.Repeat("1", 200<<10), words: "128"},
		{key: api.AnnotationProxyProtocol, value: "", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "8081,", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "0", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "65536", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "99999999999999999999", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "08081", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "+8081", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "8_081", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "http", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "true", words: portNumbers},
		{key: api.AnnotationProxyProtocol, value: "8081;8082", words: portNumbers},
		{key: api.AnnotationProxyResources, value: api.DefaultProxyResources},
		{key: api.AnnotationProxyResources, value: " limits.cpu=8 , requests.cpu=0.001"},
		{key: api.AnnotationProxyResources, value: "requests.memory=4294967296,limits.memory=4Gi"},
		{key: api.AnnotationProxyResources, value: "", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "cpu=1", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "limits.cpu", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "limits.cpu=", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "limits.cpu=1=1", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "limits.cpu=1 Gi", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "limits.cpu=1,", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "limits.nvidia.com/gpu=1", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "limits.cpu=1;limits.memory=1Gi", words: someAmounts},
		{key: api.AnnotationProxyResources, value: "requests.cpu=0", words: "between 1m"},
		{key: api.AnnotationProxyResources, value: "requests.cpu=0", words: "between 1m"},
		{key: api.AnnotationProxyResources, value: "limits.cpu=1e999999999", words: "each with an amount"}, // to compare it takes hours
		{key: api.AnnotationProxyResources, value: "limits.cpu=49m", words: "50m"},
		{key: api.AnnotationProxyResources, value: "limits.cpu=8001m", words: "and 8"},
		{key: api.AnnotationProxyResources, value: "requests.memory=1048575", words: "1Mi"},
		{key: api.AnnotationProxyResources, value: "limits.memory=31Mi", words: "32Mi"},
		{key: api.AnnotationProxyResources, value: "limits.memory=5Gi", words: "4Gi"},
		{key: api.AnnotationProxyResources, value: "limits.cpu=1,limits.cpu=1", words: "listed once"},
		{key: api.AnnotationProxyResources, value: "limits.cpu=1,requests.cpu=1001m", words: "must not be more than limits"},
		{key: api.AnnotationProxyResources, value: "requests.memory=2Gi,limits.memory=1Gi,limits.cpu=1", words: "must not be more than limits"},
		{key: api.AnnotationProxyResources, value: repeated("limits.cpu=1", 5), words: "at most 4"},
		{key: api.AnnotationProxyResources, value: "limits.cpu=" + strings.Repeat("0", 200<<10), words: "128"},
	}
	for value, words := range map[string]string{
		"/certs": "", "/etc/tls/": "", "/var/lib/x": "", "/Schlüssel für x": "", "//opt//./tls": "", "/sysx": "", "/" + strings.Repeat("a", 511): "",
		"": absolutePath, "certs": absolutePath, "./certs": absolutePath, "/" + strings.Repeat("a", 512): absolutePath, "/" + strings.Repeat("ü", 256): absolutePath,
		"/a:b": hasColon, "/$(X)": hasColon, `/a\b`: hasColon, "/a\nb": hasColon, "/a\x7fb": hasColon, "/a\tb": hasColon,
		"/": wouldHide, "/etc": wouldHide, "//etc/./": wouldHide, "/var/run/secrets/kubernetes.io": wouldHide, "/usr/bin/": wouldHide,
		"/dev/x": nothingIn, "/proc/1": nothingIn, "/sys/./fs": nothingIn, "/run/secrets/kubernetes.io/serviceaccount": nothingIn, "//var/run/secrets/kubernetes.io/serviceaccount/x": nothingIn,
	} {
		cases = append(cases, annotationCase{key: api.AnnotationMountPath, value: value, words: words})
	}
	return append(cases,
		annotationCase{key: api.AnnotationMountPath, value: "/x/../certs"},
		annotationCase{key: api.AnnotationMountPath, value: "/x/../etc", left: true},
	)
}

// podCases are those of the annotations of pods alone, on every kind that has a template.
func podCases() []annotationCase {
	var cases []annotationCase
	for _, on := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"} {
		cases = append(cases, []annotationCase{
			{on: on, key: api.AnnotationSecretName, value: "web-tls"},
			{on: on, key: api.AnnotationSecretName, value: "", words: noSecretName},
			{on: on, key: api.AnnotationSecretName, value: "a/b", words: noSecretName},
			{on: on, key: api.AnnotationMode, value: "flags", words: oneOfModes},
			{on: on, key: api.AnnotationOnRotate, value: "reload"},
			{on: on, key: api.AnnotationOnRotate, value: "restart"},
			{on: on, key: api.AnnotationOnRotate, value: "none"},
			{on: on, key: api.AnnotationOnRotate, value: "Restart", words: `must be "reload", "restart" or "none"`},
			{on: on, key: api.AnnotationFormats, value: "keystore.p12"},
			{on: on, key: api.AnnotationFormats, value: "p12", words: oneOfFormats},
			{on: on, key: api.AnnotationCombinedPEM, value: "true"},
			{on: on, key: api.AnnotationCombinedPEM, value: "1", words: trueOrFalse},
		}...)
	}
	return cases
}

func targetCases() []annotationCase {
	mode := func(mode string) map[string]string { return map[string]string{api.AnnotationRotateMode: mode} }
	return []annotationCase{
		{on: "ConfigMap", key: api.AnnotationInjectCABundle, value: "true"},
		{on: "ConfigMap", key: api.AnnotationInjectCABundle, value: "false"},
		{on: "ConfigMap", key: api.AnnotationInjectCABundle, value: "yes", words: trueOrFalse},
		{on: "ConfigMap", key: api.AnnotationInjectCABundle, value: "", words: trueOrFalse},
		{on: "ConfigMap", key: api.AnnotationRotate, value: "on another ConfigMap\n"},
		{on: "CA", key: api.AnnotationRotate, value: "yearly"},
		{on: "CA", key: api.AnnotationRotate, value: "yearly", beside: mode("overlap")},
		{on: "CA", key: api.AnnotationRotate, value: "yearly", beside: mode("force")},
		{on: "CA", key: api.AnnotationRotate, value: "yearly", beside: mode("distrust-now")},
		{on: "CA", key: api.AnnotationRotate, value: "yearly", beside: mode("replace-lost")},
		{on: "CA", key: api.AnnotationRotate, value: "yearly", beside: mode("now"), words: "must be overlap, force, distrust-now, replace-lost", names: api.AnnotationRotateMode},
		{on: "CA", key: api.AnnotationRotate, value: "", beside: mode("now")}, // a mode alone asks for nothing
		{on: "CA", key: api.AnnotationRotate, value: strings.Repeat("a", 200)},
		{on: "CA", key: api.AnnotationRotate, value: strings.Repeat("ü", 101), words: "must not be longer than 200 bytes"},
		{on: "CA", key: api.AnnotationRotate, value: strings.Repeat("a", 201), words: "must not be longer than 200 bytes"},
		{on: "CA", key: api.AnnotationRotate, value: "two\nlines", words: "must be one line of text"},
		{on: "CA", key: api.AnnotationPromoteDespite, value: "2"},
		{on: "CA", key: api.AnnotationPromoteDespite, value: "x"}, // names no generation
	}
}
