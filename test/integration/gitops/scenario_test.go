//go:build gitops

package gitops

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const repository = "../../.."

func encoded(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// configMapData reads the data of a manifest of one ConfigMap.
func configMapData(t *testing.T, path string) map[string]string {
	t.Helper()
	objects, err := deploy.Decode(readFile(t, path))
	require.NoError(t, err)
	require.Len(t, objects, 1)
	data, _, err := unstructured.NestedStringMap(objects[0].Object, "data")
	require.NoError(t, err)
	return data
}

// filesOf are the files below a directory of this repository.
func filesOf(t *testing.T, from string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	root := filepath.Join(repository, from)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	}))
	return files
}

// shop is the application of testdata/shop.yaml in the namespace. Of each pair, the first is
// replaced by the second.
func shop(t *testing.T, namespace string, changes ...string) map[string][]byte {
	t.Helper()
	manifest := strings.NewReplacer(append([]string{"NAME", namespace}, changes...)...).Replace(string(readFile(t, "testdata/shop.yaml")))
	return map[string][]byte{"shop.yaml": []byte(manifest)}
}

// restartedAt is when the rotator has restarted Deployment web.
func restartedAt(t *testing.T, namespace string) string {
	t.Helper()
	return deploymentOf(t, namespace, "web").Spec.Template.Annotations[restart.AnnotationRestartedAt]
}

// firstIssue waits until the application has all that servingcert gives it.
func firstIssue(t *testing.T, namespace string) {
	t.Helper()
	served(t, namespace)
	targetsHold(t, namespace)
}

// renewed renews by the plugin: the rotator wakes the pods, and restarts those that do not
// read the new files.
func renewed(t *testing.T, namespace string) {
	t.Helper()
	leaf, restarted := leafOf(t, namespace), restartedAt(t, namespace)
	woken := watchWakes(t, namespace)
	plugin(t, "renew", "web", "-n", namespace)
	assert.NotEqual(t, leaf, leafOf(t, namespace))
	woken(leafOf(t, namespace))
	served(t, namespace)
	assert.NotEqual(t, restarted, restartedAt(t, namespace), "the rotator has restarted the Deployment")
}

// watchWakes watches the pods of the namespace. What it returns waits until the rotator has
// written on one of them that there is a new certificate: pods may be gone soon after.
func watchWakes(t *testing.T, namespace string) (woken func(leaf string)) {
	t.Helper()
	c, err := client.NewWithWatch(plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	pods, err := c.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(namespace))
	require.NoError(t, err)
	return func(leaf string) {
		t.Helper()
		defer pods.Stop()
		timeout := time.After(harness.Soon)
		for {
			select {
			case event, open := <-pods.ResultChan():
				require.True(t, open, "the watch of pods has ended")
				if pod, ok := event.Object.(*corev1.Pod); ok && strings.Contains(pod.Annotations[api.AnnotationLeaf], leaf[:12]) {
					return
				}
			case <-timeout:
				require.Fail(t, "no pod was woken")
			}
		}
	}
}

// succeeded replaces the CA by the plugin, and follows that until pods serve certificates of
// the new one.
func succeeded(t *testing.T, namespaces ...string) {
	t.Helper()
	before := roots(t)
	plugin(t, "rotate-ca", "--reason", "the test of "+t.Name(), "--yes")
	assert.NotEqual(t, before, roots(t))
	for _, namespace := range namespaces {
		served(t, namespace)
		targetsHold(t, namespace)
	}
}

// pending asks for a renewal while no signer is there, and has the annotation be there
// still after the tool has looked. The signer that comes then renews.
func pending(t *testing.T, tool tool, in *installation, namespace string) {
	t.Helper()
	require.NoError(t, in.signer.Stop())
	leaf := leafOf(t, namespace)
	undisturbed(t, tool, []string{namespace}, func() {
		plugin(t, "renew", "web", "-n", namespace, "--wait=false")
	})
	assert.NotEmpty(t, serviceOf(t, namespace, "web").Annotations[api.AnnotationRenewAfter], "the tool took the request for a renewal back")
	assert.Equal(t, leaf, leafOf(t, namespace))
	undisturbed(t, tool, []string{namespace}, func() {
		in.signer = startProcess(in.whole, "signer", signerFlags...)
		harness.Eventually(t, func() error {
			if leafOf(t, namespace) == leaf {
				return fmt.Errorf("the certificate is the same")
			}
			return nil
		})
		served(t, namespace)
	})
}

func serviceOf(t *testing.T, namespace, name string) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, svc))
	return svc
}

// committed changes each object of the application that servingcert writes to: the tool
// applies it, and what servingcert wrote is still there.
func committed(t *testing.T, tool tool, app application) {
	t.Helper()
	restarted, leaf := restartedAt(t, app.name), leafOf(t, app.name)
	app.files = shop(t, app.name, `inject-ca-bundle: "true"`, `inject-ca-bundle: "true", example.com/changed: "true"`,
		"duration: 12h", `duration: 12h, example.com/changed: "true"`, "replicas: 2", "replicas: 3")
	tool.deliver(t, app)
	for _, h := range holders(app.name) {
		_, err := h.held(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "true", h.object.GetAnnotations()["example.com/changed"])
	}
	assert.EqualValues(t, 3, *deploymentOf(t, app.name, "web").Spec.Replicas)
	targetsHold(t, app.name)
	served(t, app.name)
	assert.Equal(t, restarted, restartedAt(t, app.name), "the annotation of the restart is still there: nothing rolls out")
	assert.Equal(t, leaf, leafOf(t, app.name))
	undisturbed(t, tool, []string{app.name}, func() {})
}

// annotatedByHand is what ADR 37 is about, for comparison: an annotation of a field manager
// that begins with "kubectl".
func annotatedByHand(t *testing.T, namespace, manager string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"2000-01-01T00:00:00Z"}}}`, api.AnnotationRenewAfter)
	svc := serviceOf(t, namespace, "web")
	require.NoError(t, admin.Patch(t.Context(), svc, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(manager)))
}

// chart renders the Helm chart as Flux's helm-controller or "helm template" would.
func chart(t *testing.T, namespace string) []byte {
	t.Helper()
	out, err := exec.Command(filepath.Join(dir, "helm"), "template", "servingcert", filepath.Join(repository, "deploy/chart"), "--namespace", namespace).Output()
	require.NoError(t, err)
	return out
}
