package api

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/starttls"
)

//go:generate go test -run=^TestTheChartHasTheShapes$ . -update

// shapes are the shapes of the annotations of Services, namespaces and pods.
var shapes = withFormats(map[string]Shape{
	AnnotationSecretName: {MaxBytes: validation.DNS1123SubdomainMaxLength, Rules: []Rule{must(
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`,
		"not a valid Secret name: must be at most 253 lower case letters, digits, '-' and '.', and each part between dots must start and end with a letter or digit")}},

	// time.ParseDuration and time.Parse decide. The API server also refuses what cannot be parsed,
	// except a day that its month does not have, and numbers that are too large.
	AnnotationDuration: {MaxBytes: maxValue, Rules: []Rule{must(
		`^[-+]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`,
		"not a valid duration: must be a Go duration of at most 64 bytes, such as 720h")}},
	AnnotationRenewAfter: {MaxBytes: maxValue, Rules: []Rule{must(
		`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01]?[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})$`,
		"not a valid time: must be RFC 3339, such as 2026-01-31T12:00:00Z, and at most 64 bytes")}},

	AnnotationKeyAlgorithm: {MaxBytes: maxValue, Rules: []Rule{must(
		`^(`+alternatives(pki.KeyAlgorithms())+`)$`, "unknown key algorithm: must be one of "+listed(pki.KeyAlgorithms()))}},

	AnnotationExtraDNSNames: {MaxBytes: MaxAnnotation, MaxEntries: MaxNames, Entries: "names", Rules: []Rule{
		// The next character decides what comes next, and lengths have rules of their own: package
		// regexp matches such an expression in one pass, without a buffer.
		must(`^([*][.])?[a-z0-9](-*[a-z0-9])*([.][a-z0-9](-*[a-z0-9])*)*$`, dnsNames),
		mustNot(`^.{254}`, dnsNames),
		mustNot(`[^.]{64}`, dnsNames),
		mustNot(`^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$`,
			"is an IP address: must be a DNS name; for the Service's own addresses, set "+AnnotationClusterIPs),
	}},

	AnnotationKeySource:        anyOf(KeySourceSecret, KeySourcePod),
	AnnotationIssuer:           anyOf(IssuerServingcert, IssuerExternal),
	AnnotationClusterIPs:       anyOf("true", "false"),
	AnnotationBackendTLSPolicy: anyOf("true", "false"),
	AnnotationMode:             anyOf(ModeArgs, ModeEnv, ModeMount),
	AnnotationHTTPSProbes:      anyOf(HTTPSProbesAuto, HTTPSProbesTrue, HTTPSProbesFalse),
	AnnotationOnRotate:         anyOf(OnRotateReload, OnRotateRestart, OnRotateNone),
	AnnotationTrust:            anyOf(TrustFalse, TrustTrue, TrustEnv),
	AnnotationIdentity:         anyOf("true", "false"),

	AnnotationKeystorePassword: {MaxBytes: formats.MaxPassword, explain: formats.CheckPassword, Rules: []Rule{must(
		fmt.Sprintf(`^[!-#%%-~]{%d,%d}$`, formats.MinPassword, formats.MaxPassword),
		fmt.Sprintf("must be %d to %d bytes, printable ASCII without spaces and dollar signs", formats.MinPassword, formats.MaxPassword))}},

	AnnotationContainers: {MaxBytes: maxContainerNames, MaxEntries: MaxNames, Entries: "names", Rules: []Rule{must(
		`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`,
		"must be a comma-separated list of container names: each must be at most 63 lower case letters, digits and '-', and must start and end with a letter or digit")}},

	AnnotationCertFlag: flagShape(DefaultCertFlag),
	AnnotationKeyFlag:  flagShape(DefaultKeyFlag),

	AnnotationMountPath: {MaxBytes: maxMountPath, explain: checkMountPath, Rules: mountPathRules()},

	AnnotationProxyProtocol: {MaxBytes: maxProxyProtocol, MaxEntries: MaxProxyPorts, Entries: "ports", Rules: []Rule{must(
		`^([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$`,
		"must be a comma-separated list of numbers of ports, each from 1 to 65535")}},

	// The pattern excludes exponents: comparing 1e999999999 with anything takes hundreds of
	// megabytes, and hours.
	AnnotationProxyResources: {MaxBytes: maxProxyResources, MaxEntries: len(proxyAmounts), Entries: "amounts", Rules: []Rule{must(
		`^(requests|limits)[.](cpu|memory)=[0-9]{1,10}([.][0-9]{1,3})?(m|k|M|G|Ki|Mi|Gi)?$`,
		"must be a comma-separated list of requests.cpu, requests.memory, limits.cpu and limits.memory, each with an amount, such as limits.memory=128Mi")}},

	AnnotationConnect: {MaxBytes: maxConnect, MaxEntries: MaxConnects, Entries: "Services", Rules: []Rule{must(
		`^([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)$`,
		"must be a comma-separated list of Services, each as SERVICE or SERVICE.NAMESPACE, with or without :PORT, or * for those of the namespace; or none")}},

	AnnotationClients: {MaxBytes: maxClients, MaxEntries: MaxClientEntries, Entries: "clients", Rules: []Rule{
		must(`^(any|watch|([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)/([*]|[a-z0-9](-*[a-z0-9])*([.][a-z0-9](-*[a-z0-9])*)*))$`, serviceAccounts),
		mustNot(`/.{254}`, serviceAccounts),
	}},

	AnnotationProbe: {MaxBytes: maxProbe, MaxEntries: MaxProbes, Entries: "ports", Rules: []Rule{must(
		`^[a-z0-9-]{1,63}=(`+alternatives(starttls.Protocols())+`)$`,
		"must be a comma-separated list of PORT=PROTOCOL, with the name or the number of a port of the Service, and a PROTOCOL of "+listed(starttls.Protocols()))}},
})

const serviceAccounts = "must be a comma-separated list of ServiceAccounts, each as NAMESPACE/NAME with * for all of one of the two, or of " + ClientsAny + " and " + ClientsWatch

const dnsNames = "must be a comma-separated list of DNS names of at most 253 characters, in lower case; a wildcard must be the whole first label, such as *.example.com"

// withFormats adds the annotations that request formats.
func withFormats(shapes map[string]Shape) map[string]Shape {
	for _, key := range FormatAnnotations() {
		shapes[key] = anyOf("true", "false")
	}
	shapes[AnnotationFormats] = Shape{MaxBytes: maxValue, MaxEntries: maxValue, Entries: "formats", explain: unknownFormat, Rules: []Rule{must(
		`^(`+alternatives(formatWords())+`)$`, "must be a comma-separated list of "+listed(formatWords()))}}
	return shapes
}

// flagShape returns the shape of the flag of a program in Go, GNU's or most other styles. An equals
// sign or a space would make it a flag with a value, and a dollar sign an expansion.
func flagShape(example string) Shape {
	return Shape{MaxBytes: 102, Rules: []Rule{must(
		`^--?[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`,
		"not a valid flag name: must be one or two dashes, then letters, digits, dots, dashes or underscores, such as "+example)}}
}

// mountPathRules returns the rules of AnnotationMountPath. checkMountPath also resolves "..", which
// a regular expression cannot.
func mountPathRules() []Rule {
	const (
		slash   = `/+(\./+)*`                               // also //, and /./
		end     = `(/+(\./+)*\.?)?$`                        // also a slash or /. at the end
		segment = `([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+|\.)?` // all but ..
	)
	below := func(paths []string) string {
		var names []string
		for _, p := range paths {
			if p != "/" {
				names = append(names, p[1:])
			}
		}
		return strings.ReplaceAll(alternatives(names), "/", slash)
	}
	return []Rule{
		must(`^/`, "must be the absolute path of a separate directory, such as "+DefaultMountPath+", and at most 512 bytes"),
		mustNot(`[:$\\\x00-\x1f\x7f]`, "contains a colon, a dollar sign, a backslash or a control character, which have a meaning for container runtimes or the kubelet"),
		mustNot(`^`+slash+`((`+below(reservedPaths)+`)`+end+`|\.?$)`,
			"would hide what the container itself has in this directory: must be the absolute path of a separate directory, such as "+DefaultMountPath),
		mustNot(`^`+slash+`(`+below(closedPaths)+`)(/`+segment+`)*$`,
			"nothing can be mounted in /dev, /proc, /sys and the directory of the service account's token"),
	}
}
