package mutate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// TestRoomForConfigurationFiles: a configuration file is an annotation, so a program gets
// one only if the pod's annotations stay within their limit.
func TestRoomForConfigurationFiles(t *testing.T) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(9090)}},
		},
	}
	pod := func(free int) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "web", Labels: svc.Spec.Selector, Annotations: map[string]string{"k": strings.Repeat("x", maxAnnotations-1-free)},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "web", Image: "prom/prometheus", Args: []string{"--log.level=info"}, Ports: []corev1.ContainerPort{{ContainerPort: 9090}},
			}}},
		}
	}
	size := func(pod *corev1.Pod) (n int) {
		for k, v := range pod.Annotations {
			n += len(k) + len(v)
		}
		return n
	}
	known := choose.Known{Services: []*corev1.Service{svc}}
	const key = api.AnnotationFilePrefix + "web-config.yml"
	empty := pod(maxAnnotations - 1)
	needed := len(key) + len(pass(t, empty, known).Annotations[key])

	after := pass(t, pod(needed), known)
	assert.Contains(t, after.Annotations, key)
	assert.NotContains(t, after.Annotations, api.AnnotationStatus, "there is no room for it")
	assert.Len(t, after.Spec.Containers[0].Args, 2)
	assert.Equal(t, maxAnnotations, size(after))

	copied := pod(needed + len(api.AnnotationStatus) + 2)
	copied.Annotations[api.AnnotationStatus] = "{}" // of another pod, and smaller than its own
	after = pass(t, copied, known)
	assert.Contains(t, after.Annotations, key)
	assert.Equal(t, maxAnnotations, size(after))
	copied.Annotations["k"] += "x"
	assert.NotContains(t, pass(t, copied, known).Annotations, key)

	after = pass(t, pod(needed-1), known)
	assert.NotContains(t, after.Annotations, key)
	assert.Len(t, after.Spec.Containers[0].Args, 1, "a flag without its file would stop the program")
	assert.Len(t, after.Spec.Volumes[0].Projected.Sources, 2)
	assert.LessOrEqual(t, size(after), maxAnnotations)
	_, report, err := Mutate(pod(needed-1), known)
	assert.NoError(t, err)
	assert.Contains(t, report.Reasons(), reasons.ProgramNeedsMore)
	assert.Contains(t, strings.Join(report.Warnings(), "\n"), "the pod's annotations leave no room for its configuration file: shorten them")
}

// TestConfigurationFilesAreInOrder: the same pod has the same patch.
func TestConfigurationFilesAreInOrder(t *testing.T) {
	in := newInput(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"k": "v"}}}, api.PodRequest{}, choose.Choice{})
	config := map[string]string{"d": "4", "a": "1", "c": "3", "b": "2"}
	var paths []string
	for _, o := range writeStatus(in, nil, config, &Report{Reason: reasons.Injected}) {
		paths = append(paths, o.Path)
	}
	const of = "/metadata/annotations/file.servingcert.dev~1"
	assert.Equal(t, []string{of + "a", of + "b", of + "c", of + "d", "/metadata/annotations/servingcert.dev~1status"}, paths)
}
