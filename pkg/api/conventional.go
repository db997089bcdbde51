package api

import (
	"slices"
	"strings"
)

// Where conventional Secrets are: ConfigMap ConventionalStatusName in the signer's
// namespace, which the signer writes. The rotator, which may read no Secret,
// learns from it which pods would get one.
const (
	ConventionalStatusName = "servingcert-conventional-secrets"
	// ConventionalNamespacesKey holds the opted-in namespaces with a Secret
	// ConventionalSecretName of type kubernetes.io/tls, sorted, one in a line.
	ConventionalNamespacesKey = "namespaces"
)

// maxConventional bounds the ConfigMap, which may hold 1 MiB.
const maxConventional = 10_000

// FormatNamespaces returns the value of ConventionalNamespacesKey. Of more than
// 10 000 namespaces it names the first.
func FormatNamespaces(namespaces []string) string {
	sorted := slices.Sorted(slices.Values(namespaces))
	return strings.Join(sorted[:min(len(sorted), maxConventional)], "\n")
}

// ParseNamespaces reads the value of ConventionalNamespacesKey.
func ParseNamespaces(value string) map[string]bool {
	namespaces := map[string]bool{}
	for name := range strings.FieldsSeq(value) {
		namespaces[name] = true
	}
	return namespaces
}
