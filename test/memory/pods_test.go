package memory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// ordinaryPod is one of three that a ReplicaSet made.
func ordinaryPod(i int) *corev1.Pod {
	hash := fmt.Sprintf("7d9f%06d", i/3)
	pod := rotatortest.ReadyPod(fmt.Sprintf("checkout-backend-%s-%05d", hash, i), "")
	pod.Namespace, pod.UID = "shop", types.UID(fmt.Sprintf("5f0e5c1e-4f3c-4a8e-9b1e-%012d", i))
	pod.ResourceVersion, pod.CreationTimestamp = fmt.Sprint(1_000_000+i), metav1.Unix(1e9+int64(i), 0)
	pod.Labels = map[string]string{"app": "checkout", "pod-template-hash": hash, "app.kubernetes.io/managed-by": "Helm"}
	pod.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", "checkout-backend-"+hash)}
	pod.Annotations = map[string]string{"checksum/config": strings.Repeat("4c8a", 16)}
	rotatortest.SecretVolume("web-tls")(pod)
	return pod
}

// largestPod returns a pod with labels, ports and Secrets of its own, more of each than is kept.
func largestPod(i int) *corev1.Pod {
	pod := ordinaryPod(i)
	pod.Spec.Containers = []corev1.Container{{Name: "server"}}
	for j := range 200 {
		pod.Labels[fmt.Sprintf("%s-%05d-%03d", strings.Repeat("k", 50), i, j)] = strings.Repeat("v", 63)
		rotatortest.SecretVolume(fmt.Sprintf("%s-%05d-%03d", strings.Repeat("s", 100), i, j))(pod)
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{Name: fmt.Sprintf("https-%05d-%03d", i, j), ContainerPort: int32(j + 1)})
	}
	for j := range pod.Spec.Volumes {
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: pod.Spec.Volumes[j].Name, MountPath: fmt.Sprint("/m", j)})
	}
	return pod
}

// TestMemoryOfPods holds what the rotator keeps of pods to the table of docs/limits.md, and what is
// reserved for it to what it is.
func TestMemoryOfPods(t *testing.T) {
	const kib = 1 << 10
	share := api.ShareOf(0)
	for _, tc := range []struct {
		row    string
		n      int
		make   func(int) *corev1.Pod
		exceed bool // there are more than there is room for
	}{
		{row: "one pod, the largest", n: 1, make: largestPod},
		{row: "10 000 ordinary pods", n: 10_000, make: ordinaryPod},
		{row: "one namespace, whatever its pods", n: 2000, make: largestPod, exceed: true},
	} {
		t.Run(tc.row, func(t *testing.T) {
			limit := documented(t, tc.row) * kib
			accounts, reserved := facts.NewAccounts("Pod", share), int64(0)
			got := retained(t, tc.n, tc.make, func(pod *corev1.Pod) any {
				f := pods.FactsOf(pod)
				if !accounts.Admit(pod, f.Size) {
					f = f.Reduce()
				} else {
					reserved += f.Size()
				}
				return f
			})
			t.Logf("%d KiB, of %d; %d reserved", got/kib, limit/kib, reserved/kib)
			assert.LessOrEqual(t, got, limit)
			assert.Greater(t, 4*got, limit, "the page says far more than what is needed")
			assert.LessOrEqual(t, reserved, share.Namespace)
			if tc.exceed {
				assert.Greater(t, reserved, share.Namespace-200*kib)
			}
		})
	}
	assert.Zero(t, pods.FactsOf(ordinaryPod(0)).Size(), "what is ordinary counts for nothing")
}
