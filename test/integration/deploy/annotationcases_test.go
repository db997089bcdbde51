package deploy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Words of refusals.
const (
	trueOrFalse = `must be "true" or "false"`
	oneOfModes  = `must be "args", "env" or "mount"`
	sameFlag    = "is also the flag of the certificate"
	outside     = "refers to a host outside the cluster, which cannot get a certificate"
	hasSelector = "a Service may use this name only if it has a selector"
)

// annotationCases are values about which the policies and the parsers must agree and that have the
// shape of their annotation: what the policies check beyond shapes, and what they leave to the
// parsers. TestThePolicyChecksTheShapes is about all others.
func annotationCases() []annotationCase {
	cases := slices.Concat(serviceCases(), leftCases(), targetCases())
	for _, on := range []string{"Service", "Namespace", "Deployment"} {
		for _, c := range settingCases() {
			c.on = on
			cases = append(cases, c)
		}
	}
	return cases
}

func serviceCases() []annotationCase {
	external := func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	}
	selectsNone := func(s *corev1.Service) { s.Spec.Selector = nil }
	return []annotationCase{
		{on: "Service", key: api.AnnotationSecretName, value: "serving-cert"},
		{on: "Service", key: api.AnnotationSecretName, value: "web-tls", service: external, words: outside, names: "spec.type"},
		{on: "Service", key: api.AnnotationSecretName, value: "serving-cert", service: selectsNone, words: hasSelector},
		{on: "Service", key: api.AnnotationSecretName, value: "web-tls", service: selectsNone},
		{on: "Service", key: api.AnnotationDuration, value: "1h30m0.000s"},
		{on: "Service", key: api.AnnotationDuration, value: "14m59s", words: "must be between"},
		{on: "Service", key: api.AnnotationDuration, value: "-720h", words: "must be between"},
		{on: "Service", key: api.AnnotationDuration, value: "3600.5s", words: "must be in whole seconds"},
		{on: "Service", key: api.AnnotationDuration, value: "1h1ns", words: "must be in whole seconds"},
	}
}

// leftCases are refused by the parser, and left to the condition by the policy.
func leftCases() []annotationCase {
	var cases []annotationCase
	for _, c := range []struct{ key, value string }{
		{api.AnnotationProbe, "80=smtp"},             // not its port
		{api.AnnotationClusterIPs, "true"},           // by --permit-cluster-ips
		{api.AnnotationKeyAlgorithm, "RSA4096"},      // by --permit-rsa4096
		{api.AnnotationExtraDNSNames, "example.com"}, // by --permit-dns-suffix
		{api.AnnotationExtraDNSNames, "1.2.3.256"},   // no address, and as a name not permitted
		{api.AnnotationExtraDNSNames, "01.2.3.4"},
		{api.AnnotationDuration, "30m"}, // by --min-duration and --max-duration
		{api.AnnotationDuration, "99999h"},
		{api.AnnotationDuration, "9999999999h"},            // more than a duration can hold
		{api.AnnotationRenewAfter, "2026-02-30T12:00:00Z"}, // the length of months
		{api.AnnotationRenewAfter, "2026-01-31T12:00:00+99:00"},
		{api.AnnotationMountPath, "/x/../etc"},
	} {
		cases = append(cases, annotationCase{on: "Service", key: c.key, value: c.value, left: true})
	}
	return cases
}

// settingCases are those of the annotations that a Service, a namespace and a pod may have.
func settingCases() []annotationCase {
	cases := []annotationCase{
		{key: api.AnnotationKeyFlag, value: "--tls-cert-file", words: sameFlag},
		{key: api.AnnotationCertFlag, value: "--tls-private-key-file", words: sameFlag, names: api.AnnotationKeyFlag},
		{key: api.AnnotationCertFlag, value: "--pem", beside: map[string]string{api.AnnotationKeyFlag: "--pem"}, words: sameFlag, names: api.AnnotationKeyFlag},
		{key: api.AnnotationCertFlag, value: "--tls-private-key-file", beside: map[string]string{api.AnnotationKeyFlag: "--tls-cert-file"}},
	}
	cases = append(cases, annotationCase{key: api.AnnotationProxyResources, value: " limits.cpu=8 , requests.cpu=0.001"})
	for value, words := range map[string]string{
		api.DefaultProxyResources: "", "requests.memory=4294967296,limits.memory=4Gi": "",
		"requests.cpu=0": "between 1m", "limits.cpu=49m": "50m", "limits.cpu=8001m": "and 8", "requests.memory=1048575": "1Mi", "limits.memory=31Mi": "32Mi", "limits.memory=5Gi": "4Gi",
		"limits.cpu=1e999999999":          "each with an amount", // to compare it takes hours
		"limits.cpu=1,limits.cpu=1":       "listed once",
		"limits.cpu=1,requests.cpu=1001m": "must not be more than limits", "requests.memory=2Gi,limits.memory=1Gi,limits.cpu=1": "must not be more than limits",
	} {
		cases = append(cases, annotationCase{key: api.AnnotationProxyResources, value: value, words: words})
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
