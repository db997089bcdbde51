package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func TestNamespacesOfConventionalSecrets(t *testing.T) {
	assert.Equal(t, "a\nb", FormatNamespaces([]string{"b", "a"}))
	assert.Empty(t, FormatNamespaces(nil))
	assert.Equal(t, map[string]bool{"a": true, "b": true}, ParseNamespaces("b\n a\r\n\n"), "as a person may have left it")
	assert.Empty(t, ParseNamespaces(""))

	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprintf("%05d-%s", i, strings.Repeat("x", 57)))
	}
	value := FormatNamespaces(many)
	assert.Less(t, len(value), 1<<20-1024, "what a ConfigMap can hold")
	assert.Len(t, ParseNamespaces(value), maxConventional)
}

func TestIsConventional(t *testing.T) {
	mine := map[string]string{"app": "web"}
	assert.True(t, IsConventional("serving-cert", corev1.SecretTypeTLS, nil))
	assert.True(t, IsConventional("serving-cert", corev1.SecretTypeTLS, mine))
	assert.False(t, IsConventional("web-tls", corev1.SecretTypeTLS, mine))
	assert.False(t, IsConventional("serving-cert", corev1.SecretTypeOpaque, mine))
	assert.False(t, IsConventional("serving-cert", corev1.SecretTypeTLS, map[string]string{LabelManagedBy: DefaultInstance}))
	assert.False(t, IsConventional("serving-cert", corev1.SecretTypeTLS, map[string]string{LabelManagedBy: ""}))
}
