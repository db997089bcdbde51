package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/docs/commands"
)

// shell runs commands as they stand in the documentation, with kubectl and helm, on a control plane of its own.
type shell struct {
	env   []string
	admin client.Client
}

func newShell(t *testing.T) shell {
	t.Helper()
	binaries, err := controlplane.Binaries(t.Context(), os.Stderr, controlplane.Kubectl)
	require.NoError(t, err)
	own, err := controlplane.Start(t.Context(), controlplane.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, own.Stop()) })
	s := shell{env: []string{
		"KUBECONFIG=" + own.KubeconfigFile(), "HOME=" + t.TempDir(),
		"PATH=" + strings.Join([]string{filepath.Dir(binaries[controlplane.Kubectl]), dir, os.Getenv("PATH")}, string(filepath.ListSeparator)),
	}}
	s.admin, err = client.New(own.AdminConfig(), client.Options{})
	require.NoError(t, err)
	return s
}

// run runs commands in the root of the repository; the first that fails ends the test.
func (s shell) run(t *testing.T, commands string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", commands)
	cmd.Dir, cmd.Env = root, s.env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", commands, out)
	assert.NotContains(t, strings.ToLower(string(out)), "conflict")
}

// marked returns the blocks of docs/install.md that the test is named in.
func marked(t *testing.T) (scripts []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/install.md"))
	require.NoError(t, err)
	blocks, err := commands.Blocks(string(page))
	require.NoError(t, err)
	for i := range blocks {
		if blocks[i].By == t.Name() {
			scripts = append(scripts, blocks[i].Commands[0].Text)
		}
	}
	return scripts
}

// From the manifest to Helm and back, and to Kustomize, by what the documentation says: no tool has a
// conflict, each has all fields to itself, and the objects are the same again.
func TestFromOneWayToAnother(t *testing.T) {
	s := newShell(t)
	ways := marked(t)
	require.Len(t, ways, 3, "the manifest, to Helm, and back")
	s.run(t, ways[0])
	before := s.objects(t, "kubectl")
	for _, upgrade := range []string{"", " --set consumers.wake=false,networkPolicies.enabled=false"} {
		templates := s.templates(t)
		s.run(t, ways[1])
		s.objects(t, "helm")
		assert.Equal(t, templates, s.templates(t), "no pod is replaced")
		s.run(t, "helm upgrade servingcert deploy/chart --namespace servingcert-system"+upgrade)
		s.run(t, ways[2])
		assert.Equal(t, before, s.objects(t, "kubectl"))
	}
	s.run(t, "kubectl apply --server-side -k deploy/kustomize/base")
	assert.Equal(t, before, s.objects(t, "kubectl"))
	s.run(t, `test -z "$(helm list --short --namespace servingcert-system)"`)
}

// templates returns the pod templates of the Deployments: a Deployment whose template is another replaces
// its pods.
func (s shell) templates(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	var deployments appsv1.DeploymentList
	require.NoError(t, s.admin.List(t.Context(), &deployments, client.InNamespace(api.DefaultNamespace)))
	templates := map[string]corev1.PodTemplateSpec{}
	for i := range deployments.Items {
		templates[deployments.Items[i].Name] = deployments.Items[i].Spec.Template
	}
	require.Len(t, templates, 4)
	return templates
}

// objects returns what is there of the manifest, without what the API server adds. Of the tools, owner
// owns fields, and no other.
func (s shell) objects(t *testing.T, owner string) map[string]any {
	t.Helper()
	objects, err := deploy.Objects()
	require.NoError(t, err)
	have := map[string]any{}
	for _, want := range objects {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(want.GroupVersionKind())
		require.NoError(t, s.admin.Get(t.Context(), client.ObjectKeyFromObject(want), obj))
		name := obj.GetKind() + " " + obj.GetName()
		var owners []string
		for _, f := range obj.GetManagedFields() {
			if f.Subresource == "" && (strings.HasPrefix(f.Manager, "kubectl") || f.Manager == "helm") && !slices.Contains(owners, f.Manager) {
				owners = append(owners, f.Manager)
			}
		}
		assert.Equal(t, []string{owner}, owners, name)
		for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
			unstructured.RemoveNestedField(obj.Object, "metadata", field)
		}
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(obj.Object, "spec", field)
		}
		delete(obj.Object, "status")
		have[name] = obj.Object
	}
	require.Contains(t, have, "Namespace "+api.DefaultNamespace)
	return have
}
