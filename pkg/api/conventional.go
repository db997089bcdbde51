package api

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Where conventional Secrets are: ConfigMap ConventionalStatusName in the signer's
// namespace, which the signer writes. The rotator, which may read no Secret,
// learns from it which pods would get one.
const (
	ConventionalStatusName = "servingcert-conventional-secrets"
	// ConventionalNamespacesKey holds the opted-in namespaces with a conventional
	// Secret, sorted, one in a line.
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

// IsConventional reports whether pods get the Secret unasked: it has the name
// ConventionalSecretName and the type kubernetes.io/tls, and no signer manages it. What
// a signer manages is for the pods of a Service, also after the Service has ceased to
// ask for it.
func IsConventional(name string, secretType corev1.SecretType, labels map[string]string) bool {
	_, managed := labels[LabelManagedBy]
	return name == ConventionalSecretName && secretType == corev1.SecretTypeTLS && !managed
}

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
