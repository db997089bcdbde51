//go:build long

package pods

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// TestFactsOfTakesLinearTime: the time grows with the size of the pod, not with the product of two
// of its lists.
func TestFactsOfTakesLinearTime(t *testing.T) {
	volumes := func(n int) *corev1.Pod {
		pod := crashed(n, 1)
		for i := range n {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i)})
		}
		return pod
	}
	containers := func(n int) *corev1.Pod {
		pod := crashed(1, 1)
		given := map[string]string{}
		for i := range n {
			name := fmt.Sprint("c", i)
			if i < 20 {
				given[name] = "files,env,flags"
			}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, crashing(name, "said"))
		}
		withStatus(api.InjectionStatus{Containers: given})(pod)
		return pod
	}
	starts := func(n int) *corev1.Pod {
		pod := rotatortest.Pod(rotatortest.BundleVolume())
		mounts := []corev1.VolumeMount{{Name: pod.Spec.Volumes[0].Name}}
		for i := range n {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), VolumeMounts: mounts})
		}
		pod.Status.ContainerStatuses = make([]corev1.ContainerStatus, 10*n)
		return pod
	}
	for name, tc := range map[string]func(n int) *corev1.Pod{
		"mounts and arguments": func(n int) *corev1.Pod { return crashed(n, 10*n) },
		"mounts and volumes":   volumes,
		"containers":           containers,
		"starts":               starts,
	} {
		t.Run(name, func(t *testing.T) {
			small, large := tc(250), tc(2000)
			read := func(pod *corev1.Pod) func() {
				return func() { FactsOf(pod); BundleStart(pod) }
			}
			assert.Less(t, bounded.Growth(read(small), read(large)), 24.0, "8 times the size")
		})
	}
}
