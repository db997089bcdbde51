package deploy

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestPermissionsCoverEachRequest: each annotation with which a Service asks for a certificate requires a right,
// where the policy is applied.
func TestPermissionsCoverEachRequest(t *testing.T) {
	policy, err := os.ReadFile("policies/permissions.yaml")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(policy), "- name: changed")
	require.True(t, found)
	listed, checked, found := strings.Cut(rest, ".filter(")
	require.True(t, found)
	asking := 0
	for _, key := range api.OnService.Annotations() {
		for _, value := range []string{"web-tls", "pod", "true", "external"} {
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{key: value}}}
			svc.Spec.Selector = map[string]string{"app": "web"}
			if api.Asks(svc) {
				asking++
				assert.Contains(t, listed, "'"+key+"'")
				assert.True(t, strings.HasSuffix(key, "secret-name") || strings.Contains(checked, "'"+key+"'"), key)
			}
		}
	}
	assert.GreaterOrEqual(t, asking, 2)
}
