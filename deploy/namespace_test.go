package deploy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The CA is in the namespace: each tool has a word of its own for what it must not delete.
func TestNoToolDeletesTheNamespace(t *testing.T) {
	objects, err := Objects()
	require.NoError(t, err)
	for _, obj := range objects {
		if obj.GetKind() != "Namespace" {
			continue
		}
		assert.Equal(t, map[string]string{
			"helm.sh/resource-policy":           "keep",
			"argocd.argoproj.io/sync-options":   "Prune=false,Delete=false",
			"kustomize.toolkit.fluxcd.io/prune": "disabled",
		}, obj.GetAnnotations())
		return
	}
	require.Fail(t, "install.yaml has no Namespace")
}
