package api

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// IsSubdomain reports whether a text is a DNS subdomain (RFC 1123), as the names of Secrets
// are. The webhook calls it for each Service of a namespace and each pod, so common names
// are recognized without a regular expression.
func IsSubdomain(name string) bool {
	return isPlainLabel(name) || checkShape(AnnotationSecretName, name) == ""
}

// isPlainLabel reports whether a text consists of at most 63 lowercase letters, digits and
// hyphens, without a hyphen at either end.
func isPlainLabel(name string) bool {
	if name == "" || len(name) > validation.DNS1123LabelMaxLength || strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
