//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"regexp"
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

// signerArgs are laid over the signer's arguments after it has been installed as it
// is: a succession takes 15 minutes by default, most of it waiting on purpose. The
// soak stays longer than a kubelet takes.
var signerArgs = []string{"--ca-soak=3m", "--ca-reissue-window=30s"}

// install applies deploy/install.yaml as it is and waits until all of it is ready.
func (c *cluster) install(t *testing.T) {
	require.NoError(t, deploy.Apply(t.Context(), c.admin, owner))
	eventually(t, starting, "servingcert", func(ctx context.Context) error {
		return c.rolledOut(ctx, api.DefaultNamespace, "")
	})
	for _, name := range []string{"signer", "rotator", "webhook"} {
		pods, err := c.pods(t.Context(), api.DefaultNamespace, map[string]string{"app.kubernetes.io/name": name})
		require.NoError(t, err)
		require.Len(t, pods, 2, name)
	}
}

// injects is nil if a client pod that is created now in the namespace would get the
// bundle: a dry run, which the webhook answers as any other.
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

// adjust lays signerArgs over the signer, as a kustomization would.
func (c *cluster) adjust(t *testing.T) {
	var patch []byte
	for _, arg := range signerArgs {
		patch = fmt.Appendf(patch, `,{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":%q}`, arg)
	}
	patch[0] = '['
	signer := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: "servingcert-signer"}}
	require.NoError(t, c.admin.Patch(t.Context(), signer, client.RawPatch(types.JSONPatchType, append(patch, ']'))))
	eventually(t, starting, "the signer with other arguments", func(ctx context.Context) error {
		return c.rolledOut(ctx, api.DefaultNamespace, "")
	})
}

var (
	// refused is what an API server says to those who lack a right.
	refused = regexp.MustCompile(`(?i)forbidden`)
	// privateKey is how every kind of private key begins in PEM.
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
)

// checkLogs fails the test if one of the patterns is in a log of servingcert. It
// returns the number of bytes that were looked at.
func (c *cluster) checkLogs(t *testing.T, patterns ...*regexp.Regexp) (size int) {
	pods := &corev1.PodList{}
	require.NoError(t, c.admin.List(t.Context(), pods, client.InNamespace(api.DefaultNamespace)))
	require.NotEmpty(t, pods.Items)
	for i := range pods.Items {
		log, err := c.log(t.Context(), &pods.Items[i], false)
		require.NoError(t, err)
		size += len(log)
		for _, pattern := range patterns {
			if found := pattern.FindIndex(log); found != nil {
				t.Errorf("log of pod %s has %q in it: …%s…", pods.Items[i].Name, pattern, log[max(0, found[0]-200):min(len(log), found[1]+200)])
			}
		}
	}
	require.NotZero(t, size, "the logs of servingcert are empty")
	return size
}

// log is what a pod's first container has written, or the one before it.
func (c *cluster) log(ctx context.Context, pod *corev1.Pod, previous bool) ([]byte, error) {
	stream, err := c.clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: pod.Spec.Containers[0].Name, Previous: previous}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }() // it was read
	return io.ReadAll(stream)
}
