package mutate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// TestTLSPortsOfTargets: a name means the first port with this name in each container.
func TestTLSPortsOfTargets(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443}, {Name: "https", ContainerPort: 1}, {Name: "admin", ContainerPort: 9443}}},
		{Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 4443}}},
	}}}
	targets := []intstr.IntOrString{intstr.FromInt32(443), intstr.FromString("https"), intstr.FromString("admin"), intstr.FromString("none")}
	in := newInput(pod, api.PodRequest{}, choose.Choice{Ports: targets})
	assert.Equal(t, []int32{443, 8443, 4443, 9443}, tlsPorts(in, nil))
}

// TestAStatusThatIsReplacedTakesNoRoom: its old value does not count.
func TestAStatusThatIsReplacedTakesNoRoom(t *testing.T) {
	pod, known := largePod(func(pod *corev1.Pod, _ *corev1.Container) {
		pod.Annotations = map[string]string{api.AnnotationStatus: strings.Repeat("x", 100<<10), "filler": strings.Repeat("x", 200<<10)}
	})
	_, report, err := Mutate(pod, known)
	require.NoError(t, err)
	assert.NotContains(t, report.Reasons(), reasons.StatusTooLarge)
	pod.Annotations["filler"] = strings.Repeat("x", maxAnnotations-len("filler"))
	_, report, err = Mutate(pod, known)
	require.NoError(t, err)
	assert.Contains(t, report.Reasons(), reasons.StatusTooLarge)
}
