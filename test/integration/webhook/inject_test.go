package webhook_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// namespace makes one for a test, in which pods can be created.
func namespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := client.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		assert.NoError(c, err)
	}, harness.Soon, 20*time.Millisecond, "no ServiceAccount default")
	if labels[api.LabelInject] == api.InjectEnabled {
		awaitLabel(t, ns.Name)
	}
	return ns.Name
}

// awaitLabel waits until the API server's own cache knows the namespace's label,
// on which the webhook's namespaceSelector is judged: with a pod that the
// webhook would refuse.
func awaitLabel(t *testing.T, ns string) {
	t.Helper()
	pod := webPod("probe")
	pod.Annotations = map[string]string{api.AnnotationMode: "no-mode"}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		assert.ErrorContains(c, err, "no-mode")
	}, harness.Soon, 20*time.Millisecond)
}

var enabled = map[string]string{api.LabelInject: api.InjectEnabled}

func webPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "example.com/web", Args: []string{"serve"}, Ports: []corev1.ContainerPort{{ContainerPort: 8443}},
		}}},
	}
}

func webService(name string) *corev1.Service {
	svc := harness.Service("", name)
	svc.Spec.Ports[0].TargetPort = intstr.FromInt32(8443)
	return svc
}

// twoFlags are those of a program that is not known, if somebody asks for them.
var twoFlags = []string{"--tls-cert-file=/etc/servingcert/tls.crt", "--tls-private-key-file=/etc/servingcert/tls.key"}

// injected fails the test unless the pod, as the API server stored it, gets the
// Secret, and these flags.
func injected(t require.TestingT, pod *corev1.Pod, secret string, flags ...string) {
	var names []string
	for _, v := range pod.Spec.Volumes {
		if v.Name == "servingcert" {
			names = append(names, v.Projected.Sources[0].Secret.Name)
		}
	}
	require.Equal(t, []string{secret}, names, "pod %s", pod.Name)
	c := pod.Spec.Containers[0]
	require.Equal(t, append([]string{"serve"}, flags...), c.Args)
	require.Equal(t, []string{api.EnvCertFile, api.EnvKeyFile, api.EnvCAFile}, []string{c.Env[0].Name, c.Env[1].Name, c.Env[2].Name})
	require.Equal(t, "true", pod.Labels[api.LabelInjected])
	require.Contains(t, pod.Annotations[api.AnnotationStatus], secret)
}

func createService(t require.TestingT, ctx testing.TB, ns string, svc *corev1.Service) {
	_, err := client.CoreV1().Services(ns).Create(ctx.Context(), svc, metav1.CreateOptions{})
	require.NoError(t, err)
}

func TestPodOfAnAnnotatedServiceIsInjected(t *testing.T) {
	ns := namespace(t, enabled)
	svc := webService("web")
	svc.Annotations[api.AnnotationMode] = string(api.ModeArgs)
	createService(t, t, ns, svc)
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), metav1.CreateOptions{})
	require.NoError(t, err)
	injected(t, pod, "web-tls", twoFlags...)
	require.Equal(t, api.BundleName, pod.Spec.Volumes[len(pod.Spec.Volumes)-1].Projected.Sources[1].ConfigMap.Name)
}

func TestPodsThatAreLeftAlone(t *testing.T) {
	labelled, unlabelled := namespace(t, enabled), namespace(t, nil)
	for _, ns := range []string{labelled, unlabelled} {
		createService(t, t, ns, webService("web"))
	}
	optedOut := webPod("web")
	optedOut.Name, optedOut.Labels[api.LabelInject] = "opted-out", api.InjectDisabled
	for _, tc := range []struct {
		ns  string
		pod *corev1.Pod
	}{
		{unlabelled, webPod("web")},
		{labelled, webPod("other")},
		{labelled, optedOut},
	} {
		pod, err := client.CoreV1().Pods(tc.ns).Create(t.Context(), tc.pod, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, []string{"serve"}, pod.Spec.Containers[0].Args)
		assert.Empty(t, pod.Spec.Containers[0].Env)
		assert.NotContains(t, pod.Labels, api.LabelInjected)
		assert.NotContains(t, pod.Annotations, api.AnnotationStatus)
	}
}

func TestWrongAnnotationDeniesThePod(t *testing.T) {
	ns := namespace(t, enabled)
	pod := webPod("web")
	pod.Annotations = map[string]string{api.AnnotationMode: "flags"}
	_, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.EqualError(t, err, `admission webhook "pods.servingcert.dev" denied the request: servingcert.dev/mode: "flags": must be "args", "env" or "mount"`)
}

func TestConventionalSecret(t *testing.T) {
	ns := namespace(t, enabled)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: api.ConventionalSecretName}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
	}
	secrets := client.CoreV1().Secrets(ns)
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("opaque"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"serve"}, pod.Spec.Containers[0].Args, "a Secret of another type means nothing")

	require.NoError(t, secrets.Delete(t.Context(), secret.Name, metav1.DeleteOptions{}))
	secret.Type = corev1.SecretTypeTLS
	secret.Labels = map[string]string{api.LabelManagedBy: api.DefaultInstance}
	_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	pod, err = client.CoreV1().Pods(ns).Create(t.Context(), webPod("managed"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"serve"}, pod.Spec.Containers[0].Args, "a Secret that the signer manages was for the pods of one Service")

	require.NoError(t, secrets.Delete(t.Context(), secret.Name, metav1.DeleteOptions{}))
	secret.Labels = nil
	_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	pod, err = client.CoreV1().Pods(ns).Create(t.Context(), webPod("tls"), metav1.CreateOptions{})
	require.NoError(t, err)
	injected(t, pod, api.ConventionalSecretName, twoFlags...)
}

func clientWithWarnings(t *testing.T) (kubernetes.Interface, *harness.Warnings) {
	t.Helper()
	cfg, w := harness.WithWarnings(cluster.AdminConfig())
	c, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	return c, w
}

func TestWarningsReachTheUser(t *testing.T) {
	ns := namespace(t, enabled)
	createService(t, t, ns, webService("web"))
	c, w := clientWithWarnings(t)
	pod := webPod("web")
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}}
	_, err := c.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	lines := slices.DeleteFunc(strings.Split(w.Take(), "\n"), func(line string) bool { return !strings.HasPrefix(line, "servingcert: ") })
	require.Len(t, lines, 2)
	require.Equal(t, "servingcert: container web: the container has envFrom: an injected variable takes precedence over one of the same name in envFrom; to use the latter, set the variable in env, or set servingcert.dev/mode: mount", lines[0])
	require.Contains(t, lines[1], "servingcert: container web: the program is not known, and no flags were requested: it gets the files and the usual variables; set servingcert.dev/mode: args")
}
