package api

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// The namespaces with conventional Secrets are in ConfigMap ConventionalStatusName in
// the signer's namespace. The signer writes it for the rotator, which may not read
// Secrets but must know which pods would get one.
const (
	ConventionalStatusName = "servingcert-conventional-secrets"
	// ConventionalNamespacesKey holds the opted-in namespaces with a conventional
	// Secret, sorted, one per line.
	ConventionalNamespacesKey = "namespaces"
)

// NotManaged selects the Secrets that no signer manages.
func NotManaged() labels.Selector {
	r, err := labels.NewRequirement(LabelManagedBy, selection.DoesNotExist, nil)
	if err != nil {
		return labels.Nothing() // the label is a valid one
	}
	return labels.NewSelector().Add(*r)
}

// IsConventional reports whether pods get the Secret by default: it has the name
// ConventionalSecretName and the type kubernetes.io/tls, and no signer manages it. A
// managed Secret is for the pods of its Service, even after the Service no longer
// requests it.
func IsConventional(name string, secretType corev1.SecretType, labels map[string]string) bool {
	_, managed := labels[LabelManagedBy]
	return name == ConventionalSecretName && secretType == corev1.SecretTypeTLS && !managed
}

// maxConventional bounds the ConfigMap, which may hold 1 MiB.
const maxConventional = 10_000

// FormatNamespaces returns the value of ConventionalNamespacesKey. It names at most the
// first 10 000 namespaces.
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
