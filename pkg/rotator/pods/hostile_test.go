package pods

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
)

// portsAndSecrets returns a pod with n ports and one volume of n Secrets, and how many
// bytes its text has.
func portsAndSecrets(n int) (pod *corev1.Pod, size int) {
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "x"}}
	var sources []corev1.VolumeProjection
	c := corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 8443})
		size += len(name) + len(`{"secret":{"name":""}},`) + len(`{"containerPort":8443},`)
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}}
	pod.Spec.Containers = []corev1.Container{c}
	return pod, size
}

// TestHostilePodsCostLittle: facts of pods as large as the API server takes cost a few times
// their size, and not the product of two of their lists.
func TestHostilePodsCostLittle(t *testing.T) {
	const most, factor = 256 << 10, 12
	annotated := func(key, value string) *corev1.Pod {
		pod, _ := portsAndSecrets(1)
		pod.Annotations = map[string]string{key: value}
		return pod
	}
	crossed, crossedSize := portsAndSecrets(3_000)
	owned, _ := portsAndSecrets(1)
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: strings.Repeat("x", 1<<20), Name: "x", Controller: new(true)}}
	commas, _ := portsAndSecrets(1)
	commas.Spec.Volumes[0].Projected.Sources[0].Secret.Name = strings.Repeat("a,", 1<<19)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		size int
	}{
		"ports and Secrets": {crossed, crossedSize},
		"containers":        {annotated(api.AnnotationContainers, strings.Repeat("a,", most/2)), most},
		"status":            {annotated(api.AnnotationStatus, `{"notes":[`+strings.Repeat(`"",`, most/3)+`""]}`), most},
		"leaf":              {annotated(api.AnnotationLeaf, strings.Repeat("a,", most/2)), most},
		"secret-name":       {annotated(api.AnnotationSecretName, strings.Repeat("a", most)), most},
		"owner":             {owned, 1 << 20},
		"name of a Secret":  {commas, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			var f *Facts
			assert.Less(t, bounded.Allocated(func() { f = FactsOf(tc.pod) }), uint64(factor*tc.size))
			template := f.Template.Value()
			kept := len(template.Mounts) + len(template.Ports) + len(template.SecretName) + len(template.Mistake) + len(template.Explained) + len(template.Workload.Kind) + len(f.Leaf())
			assert.Less(t, kept, 40<<10+len(tc.pod.Spec.Containers[0].Ports)*24)
			assert.LessOrEqual(t, len(f.Mounts()), api.MaxMounts)
		})
	}
}

// TestPortsHaveTheSecretsOfTheirContainer: whatever other containers mount.
func TestPortsHaveTheSecretsOfTheirContainer(t *testing.T) {
	pod, _ := portsAndSecrets(70)
	pod.Spec.Containers[0].Ports = pod.Spec.Containers[0].Ports[:1]
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s10"}}})
	pod.Spec.Containers = append(pod.Spec.Containers,
		corev1.Container{Name: "one", Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 443}}, VolumeMounts: []corev1.VolumeMount{{Name: "own"}}},
		corev1.Container{Name: "none", Ports: []corev1.ContainerPort{{ContainerPort: 80}}})
	ports := FactsOf(pod).Template.Value().TCPPorts()
	require.Len(t, ports, 3)
	assert.Len(t, ports[0].Secrets, api.MaxMounts)
	assert.Equal(t, Port{"https", 443, []string{"s10"}}, ports[1])
	assert.Equal(t, Port{"", 80, nil}, ports[2])
}
