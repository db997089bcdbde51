package succession

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/deploy"
)

// What docs/remote-ca.md lays over the installation is taken by the API server, and
// names flags that the signer has and files that are mounted.
func TestElsewhereIsDeployedAsDocumented(test *testing.T) {
	t := fresh(test)
	page, err := os.ReadFile("../../../docs/remote-ca.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 2, "a kustomization and a NetworkPolicy")
	var kustomization struct {
		Patches []struct {
			Target struct{ Kind, Name string }
			Patch  string
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(blocks[0][1]), &kustomization))
	require.Len(t, kustomization.Patches, 1)
	deployment := patched(t, kustomization.Patches[0].Target.Name, kustomization.Patches[0].Patch)
	policy, err := deploy.Decode([]byte(blocks[1][1]))
	require.NoError(t, err)
	c, err := client.New(t.plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	for _, object := range append(policy, deployment) {
		apply := client.ApplyConfigurationFromUnstructured(object)
		require.NoError(t, c.Apply(t.Context(), apply, client.FieldOwner("test"), client.DryRunAll))
	}

	args, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	container := args[0].(map[string]any)
	help, err := exec.Command(filepath.Join(bin, "signer"), "--help").CombinedOutput()
	require.NoError(t, err)
	var mounts []any
	for _, m := range container["volumeMounts"].([]any) {
		mounts = append(mounts, m.(map[string]any)["mountPath"])
	}
	flags := 0
	for _, arg := range container["args"].([]any) {
		flag, value, _ := strings.Cut(arg.(string), "=")
		assert.Contains(t, string(help), flag+" ")
		if strings.HasPrefix(flag, "--cfssl") {
			flags++
		}
		if strings.HasPrefix(value, "/") {
			assert.Contains(t, mounts, filepath.Dir(value))
			assert.Contains(t, string(page), "--from-file="+filepath.Base(value))
		}
	}
	assert.Equal(t, 4, flags)
}

// patched is a Deployment of install.yaml with a JSON patch written as YAML.
func patched(t *scene, name, patch string) *unstructured.Unstructured {
	t.Helper()
	objects, err := deploy.Objects()
	require.NoError(t, err)
	for _, object := range objects {
		if object.GetKind() != "Deployment" || object.GetName() != name {
			continue
		}
		operations, err := yaml.YAMLToJSON([]byte(patch))
		require.NoError(t, err)
		decoded, err := evanphx.DecodePatch(operations)
		require.NoError(t, err)
		before, err := object.MarshalJSON()
		require.NoError(t, err)
		after, err := decoded.Apply(before)
		require.NoError(t, err)
		require.NoError(t, object.UnmarshalJSON(after))
		return object
	}
	require.Fail(t, "no Deployment", name)
	return nil
}
