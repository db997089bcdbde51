package webhook_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

// corpus reads the pods of testdata and adds those that are too big to write.
func corpus(t *testing.T) []*corev1.Pod {
	t.Helper()
	data, err := os.ReadFile("testdata/corpus.yaml")
	require.NoError(t, err)
	var pods []*corev1.Pod
	for _, doc := range bytes.Split(data, []byte("\n---\n")) {
		pod := &corev1.Pod{}
		require.NoError(t, yaml.UnmarshalStrict(doc, pod))
		pods = append(pods, pod)
	}
	huge := webPod("web")
	huge.Name = "a-megabyte-of-environment"
	for i := range 2000 {
		huge.Spec.Containers[0].Env = append(huge.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%04d", i), Value: strings.Repeat("x", 500)})
	}
	many := webPod("web")
	many.Name = "a-hundred-containers"
	for i := range 99 {
		many.Spec.Containers = append(many.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c-%d", i), Image: "example.com/c"})
	}
	unclear := many.DeepCopy()
	unclear.Name, unclear.Spec.Containers[0].Ports = "a-hundred-unclear-containers", nil
	full := webPod("web")
	full.Name = "annotations-full-to-the-brim"
	full.Annotations = map[string]string{"k": strings.Repeat("x", 256<<10-1)}
	volumes := webPod("web")
	volumes.Name = "two-hundred-volumes"
	for i := range 200 {
		name := fmt.Sprintf("v-%d", i)
		volumes.Spec.Volumes = append(volumes.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		volumes.Spec.Containers[0].VolumeMounts = append(volumes.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/v/" + name})
	}
	known := webPod("web")
	known.Name, known.Spec.Containers[0].Image = "a-program-with-a-file", "prom/prometheus:v3.5.0"
	fullKnown := known.DeepCopy()
	fullKnown.Name, fullKnown.Annotations = "no-room-for-the-file-of-a-program", full.Annotations
	ownFile := known.DeepCopy()
	ownFile.Name, ownFile.Annotations = "the-file-is-there-already", map[string]string{api.AnnotationFilePrefix + "web-config.yml": "own"}
	two := known.DeepCopy()
	two.Name = "two-programs-with-one-file"
	two.Spec.Containers = append(two.Spec.Containers, corev1.Container{Name: "exporter", Image: "prom/node-exporter:v1.9.1", Ports: []corev1.ContainerPort{{ContainerPort: 8443}}})
	return append(pods, huge, many, unclear, full, volumes, known, fullKnown, ownFile, two)
}

// left are the pods of the corpus that get no certificate, with the reason.
var left = map[string]string{
	"of-job": "NotServing", "windows-os": "Windows", "windows-selector": "Windows", "unknown-container": "UnknownContainer",
	"path-taken": "MountPathTaken", "block-device-at-path": "MountPathTaken", "etc-read-only": "MountPathReadOnly", "nested-mount": "MountPathCovers",
}

func TestWhatWasAcceptedIsAccepted(t *testing.T) {
	acceptsCorpus(t, webService("web"))
}

// TestWhatWasAcceptedIsAcceptedWithAProxy: also by Pod Security Standard "restricted", and
// without a token for the proxy.
func TestWhatWasAcceptedIsAcceptedWithAProxy(t *testing.T) {
	restart(t, hook.dir, "--proxy-image=example.com/proxy")
	t.Cleanup(func() { restart(t, hook.dir) })
	svc := webService("web")
	svc.Spec.Ports[0].TargetPort = intstr.FromString("sc-tls-8443")
	before := left
	t.Cleanup(func() { left = before })
	left = map[string]string{
		"of-job": "NotServing", "windows-os": "Windows", "windows-selector": "Windows", "of-daemonset": "ProxyHostNetwork",
	}
	acceptsCorpus(t, svc)

	ns := namespace(t, enabled)
	createService(t, t, ns, svc.DeepCopy())
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), metav1.CreateOptions{})
	require.NoError(t, err)
	proxy, ok := api.ProxyOf(pod)
	require.True(t, ok)
	require.Equal(t, []api.ProxyListener{{Name: "sc-tls-8443", Port: 15444, Upstream: 8443}}, proxy.Listeners)
	require.Equal(t, "proxy", partsOf(t, pod, api.ProxyContainer))
	require.Len(t, proxy.VolumeMounts, 2, "the pair, and an empty directory in the place of the token: %+v", proxy.VolumeMounts)
	require.Len(t, pod.Spec.Containers[0].VolumeMounts, 1, "its token, and no key: %+v", pod.Spec.Containers[0].VolumeMounts)
}

// acceptsCorpus creates every pod of the corpus, after these changes, where nothing is
// injected and where the Service asks for a certificate.
func acceptsCorpus(t *testing.T, svc *corev1.Service, changes ...func(*corev1.Pod)) {
	t.Helper()
	plain, injecting := namespace(t, nil), namespace(t, enabled)
	restricting := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	plainRestricted := namespace(t, restricting)
	injectingRestricted := namespace(t, enabled)
	ns, err := client.CoreV1().Namespaces().Get(t.Context(), injectingRestricted, metav1.GetOptions{})
	require.NoError(t, err)
	ns.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	_, err = client.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
	require.NoError(t, err)
	createService(t, t, injecting, svc.DeepCopy())
	createService(t, t, injectingRestricted, svc.DeepCopy())

	pods := corpus(t)
	require.GreaterOrEqual(t, len(pods), 60)
	accepted, stayedRestricted := 0, 0
	for _, pod := range pods {
		t.Run(pod.Name, func(t *testing.T) {
			for _, change := range changes {
				change(pod)
			}
			_, err := client.CoreV1().Pods(plain).Create(t.Context(), pod, dryRun)
			if err != nil && len(changes) > 0 {
				return // there was no room for the change
			}
			require.NoError(t, err, "a pod that is refused anyway proves nothing")
			accepted++
			got, err := client.CoreV1().Pods(injecting).Create(t.Context(), pod, dryRun)
			require.NoError(t, err)
			if reason := left[pod.Name]; reason != "" {
				assert.Contains(t, got.Annotations[api.AnnotationStatus], `"reason":"`+reason+`"`)
				assert.Empty(t, got.Labels[api.LabelInjected])
			} else {
				assert.Equal(t, "true", got.Labels[api.LabelInjected], "%s", got.Annotations[api.AnnotationStatus])
			}
			if _, err := client.CoreV1().Pods(plainRestricted).Create(t.Context(), pod, dryRun); err != nil {
				return
			}
			_, err = client.CoreV1().Pods(injectingRestricted).Create(t.Context(), pod, dryRun)
			require.NoError(t, err, "restricted before, so restricted after")
			stayedRestricted++
		})
	}
	assert.GreaterOrEqual(t, stayedRestricted, 3)
	assert.GreaterOrEqual(t, accepted, 60)
	t.Logf("%d pods, %d of them restricted", accepted, stayedRestricted)
}
