package webhook_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// annotate sets annotations of a namespace; a null takes one away.
func annotate(t *testing.T, ns string, annotations map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// partsOf returns what the status of the pod says about a container.
func partsOf(t require.TestingT, pod *corev1.Pod, container string) string {
	status, ok := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
	require.True(t, ok)
	return status.Containers[container]
}

// awaitParts waits until a pod that is created now gets these parts.
func awaitParts(t *testing.T, ns string, pod *corev1.Pod, parts string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, dryRun)
		require.NoError(c, err)
		assert.Equal(c, parts, partsOf(c, got, pod.Spec.Containers[0].Name))
	}, harness.Soon, 20*time.Millisecond)
}

// TestUnknownPrograms: with --unknown-programs=flags a program that is not known gets flags
// although nobody asks for them.
func TestUnknownPrograms(t *testing.T) {
	ns := namespace(t, enabled)
	createService(t, t, ns, webService("web"))
	awaitParts(t, ns, webPod("web"), "files,env")
	restart(t, hook.dir, "--unknown-programs", "flags")
	t.Cleanup(func() { restart(t, hook.dir) })
	got, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), dryRun)
	require.NoError(t, err)
	injected(t, got, "web-tls", twoFlags...)
	require.Contains(t, got.Annotations[api.AnnotationStatus], "UnaskedFlags")
}

// TestDefaultMode: --default-mode is for pods for which nobody says a mode.
func TestDefaultMode(t *testing.T) {
	ns := namespace(t, enabled)
	createService(t, t, ns, webService("web"))
	own := webService("own")
	own.Annotations[api.AnnotationMode] = "args"
	createService(t, t, ns, own)
	restart(t, hook.dir, "--default-mode", "env")
	t.Cleanup(func() { restart(t, hook.dir) })
	create := func(pod *corev1.Pod) string {
		got, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, dryRun)
		require.NoError(t, err)
		return partsOf(t, got, "web")
	}
	assert.Equal(t, "files,env", create(webPod("web")))
	assert.Equal(t, "files,env,flags", create(webPod("own")))
	pod := webPod("own")
	pod.Annotations = map[string]string{api.AnnotationMode: "mount"}
	assert.Equal(t, "files", create(pod))
	annotate(t, ns, map[string]any{api.AnnotationMode: "args"})
	awaitParts(t, ns, webPod("web"), "files,env,flags")
	pod.Annotations[api.AnnotationMode] = "flags"
	_, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, dryRun)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
}
