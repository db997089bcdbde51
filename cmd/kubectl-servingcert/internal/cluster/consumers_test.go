package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that the kubelet held back until its first certificate existed is older than the
// certificate, but has not reloaded: the start of the program counts.
func TestConsumerIsAsOldAsItsProgram(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	consumer, _ := consumerOf(pod, nil)
	assert.True(t, consumer.Started.IsZero(), "nothing runs yet")
	for i, state := range []corev1.ContainerState{
		{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(2 * time.Minute))}},
		{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(time.Minute))}},
		{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	} {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{State: state})
		consumer, _ = consumerOf(pod, nil)
		assert.Equal(t, noon.Add(2*time.Minute), consumer.Started, "%d", i)
	}
}
