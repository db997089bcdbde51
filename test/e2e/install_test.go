//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
)

// signerArgs override the signer's arguments after the unchanged installation: by default, a succession
// takes 15 minutes, mostly of intended waiting. The soak is still longer than the kubelet takes.
var signerArgs = []string{"--ca-soak=3m", "--ca-reissue-window=30s"}

// install applies the unchanged deploy/install.yaml and waits until everything is ready.
func (c *cluster) install(t *testing.T) {
	require.NoError(t, deploy.Apply(t.Context(), c.admin, owner))
	eventually(t, starting, "servingcert", func(ctx context.Context) error {
		return c.rolledOut(ctx, api.DefaultNamespace, "")
	})
	for _, name := range []string{"signer", "trust", "rotator", "webhook"} {
		pods, err := c.pods(t.Context(), api.DefaultNamespace, map[string]string{"app.kubernetes.io/name": name})
		require.NoError(t, err)
		require.Len(t, pods, 2, name)
	}
}

// injects returns nil if a new client pod in the namespace would get the bundle. It is a dry run, which
// the webhook answers as any other request.
func (c *cluster) injects(ctx context.Context, namespace string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "asks-", Namespace: namespace, Annotations: map[string]string{api.AnnotationTrust: "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "asks", Image: "example.com/asks"}}},
	}
	if err := c.admin.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	if pod.Labels[api.LabelInjected] != "true" {
		return fmt.Errorf("a pod of namespace %s was not injected: %v", namespace, pod.Annotations)
	}
	return nil
}

// adjust adds signerArgs to the signer, as a kustomization would.
func (c *cluster) adjust(t *testing.T) { c.setArgs(t, "signer", signerArgs...) }

// setArgs overrides arguments of a process of servingcert, and returns the previous ones.
func (c *cluster) setArgs(t *testing.T, process string, args ...string) (was []string) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-" + process}, deployment))
	was = deployment.Spec.Template.Spec.Containers[0].Args
	c.setAllArgs(t, process, slices.Concat(was, args))
	return was
}

// setAllArgs replaces the arguments of a process of servingcert.
func (c *cluster) setAllArgs(t *testing.T, process string, args []string) {
	t.Helper()
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}})
	require.NoError(t, err)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: "servingcert-" + process}}
	require.NoError(t, c.admin.Patch(t.Context(), deployment, client.RawPatch(types.JSONPatchType, patch)))
	eventually(t, starting, "the "+process+" with other arguments", func(ctx context.Context) error {
		return c.rolledOut(ctx, api.DefaultNamespace, "")
	})
}
