package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestConventionalNamespaces(t *testing.T) {
	var c conventional
	says := func(namespaces ...string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{api.ConventionalNamespacesKey: api.FormatNamespaces(namespaces)}}
	}
	assert.False(t, c.in("a"), "before the first list")
	for _, step := range []struct {
		says    *corev1.ConfigMap
		changed string
	}{
		{says("b", "a"), "a b"},
		{says("a", "b"), ""},
		{says("a", "c"), "b c"},
		{nil, "a c"},
		{&corev1.ConfigMap{}, ""},
		{says("a"), "a"},
	} {
		changed := c.set(step.says)
		slices.Sort(changed)
		assert.Equal(t, step.changed, strings.Join(changed, " "))
	}
	assert.True(t, c.in("a"))
	assert.False(t, c.in("b"))
}
