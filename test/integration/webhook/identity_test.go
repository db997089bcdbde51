package webhook_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestIdentityOfPrograms: Pod Security "restricted" accepts a pod whose programs get its identity, also by its
// Namespace or Service, and the API server keeps what the webhook adds. Without --trust-domain, the pod is created
// without one, and says so.
func TestIdentityOfPrograms(t *testing.T) {
	harness.Needs(t, cluster.AdminConfig(), controlplane.PodCertificates)
	harness.Needs(t, cluster.AdminConfig(), controlplane.ClusterTrustBundles)
	labels := map[string]string{api.LabelInject: api.InjectEnabled, "pod-security.kubernetes.io/enforce": "restricted"}
	asking := restricted(webPod("report"))
	asking.Annotations = map[string]string{api.AnnotationIdentity: "true"}
	ns := namespace(t, labels)

	got, err := client.CoreV1().Pods(ns).Create(t.Context(), asking, dryRun)
	require.NoError(t, err)
	assert.Contains(t, got.Annotations[api.AnnotationStatus], "NoIdentity: ")
	assert.Empty(t, got.Spec.Containers[0].Env)

	restart(t, hook.dir, "--trust-domain=example.com")
	t.Cleanup(func() { restart(t, hook.dir) })
	check := func(t require.TestingT, got *corev1.Pod) {
		name, has := volume.FindIdentity(got, "example.com")
		require.True(t, has, "%+v", got.Spec.Volumes)
		assert.Contains(t, got.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/etc/servingcert-identity", ReadOnly: true})
		assert.Contains(t, got.Spec.Containers[0].Env, corev1.EnvVar{Name: api.EnvIdentityFolder, Value: "/etc/servingcert-identity"})
	}
	created, err := client.CoreV1().Pods(ns).Create(t.Context(), asking, metav1.CreateOptions{})
	require.NoError(t, err)
	check(t, created)

	copied := restricted(webPod("copy")) // a second pass changes nothing
	copied.Labels, copied.Annotations, copied.Spec = created.Labels, created.Annotations, *created.Spec.DeepCopy()
	again, err := client.CoreV1().Pods(ns).Create(t.Context(), copied, dryRun)
	require.NoError(t, err)
	assert.Equal(t, created.Spec, again.Spec)

	service := webService("web")
	service.Annotations[api.AnnotationIdentity] = "true"
	createService(t, t, ns, service)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := client.CoreV1().Pods(ns).Create(t.Context(), restricted(webPod("web")), dryRun)
		require.NoError(c, err)
		assert.Equal(c, "files,env,identity", partsOf(c, got, "web"))
		check(c, got)
	}, harness.Soon, harness.Soon/100)

	opted := namespace(t, labels)
	_, err = client.CoreV1().Namespaces().Patch(t.Context(), opted, "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+api.AnnotationIdentity+`":"true"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := client.CoreV1().Pods(opted).Create(t.Context(), restricted(webPod("report")), dryRun)
		require.NoError(c, err)
		check(c, got)
	}, harness.Soon, harness.Soon/100)

	asking.Annotations[api.AnnotationIdentity] = "yes"
	_, err = client.CoreV1().Pods(ns).Create(t.Context(), asking, dryRun)
	require.ErrorContains(t, err, `servingcert.dev/identity: "yes": must be "true" or "false"`)
}
