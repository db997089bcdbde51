package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// mounting returns a pod whose container has a Secret of its own making at each path.
func mounting(name, app string, paths int) *corev1.Pod {
	pod := podOf(name, app, evilPort)
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}}}}
	for i := range paths {
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: fmt.Sprint("/m", i)})
	}
	return pod
}

// crashWords has pods crash again and again, with the status that the webhook would have
// written for another pod, and with flags and words that are as long as the API server
// takes. The tenant may write what is a kubelet's part: see newTenant.
func crashWords(ctx context.Context, a *attacker) {
	const keep, flags, length = 10, 1000, 1000
	var args []string
	for i := range flags {
		args = append(args, fmt.Sprintf("--%0*d=/m0", length, i))
	}
	a.repeat(ctx, 250*time.Millisecond, func(i int) error {
		name := a.nth(i, keep)
		if i < keep {
			pod := mounting(name, a.name, 1)
			pod.Spec.Containers[0].Args = args
			if err := a.replace(ctx, pod); err != nil {
				return err
			}
		}
		return a.forgeCrash(ctx, name, strings.Repeat("unknown a b c ", 150)+fmt.Sprint(i))
	})
}

// crashMounts has one look at a pod compare each of its arguments with each of its mounts.
func crashMounts(ctx context.Context, a *attacker) {
	a.repeat(ctx, time.Second, func(i int) error {
		pod := passing(mounting(a.nth(i, 5), a.name, 4000))
		for j := range 40_000 {
			pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, fmt.Sprint("--", j))
		}
		if err := a.replace(ctx, pod); err != nil {
			return err
		}
		return a.forgeCrash(ctx, pod.Name, "x")
	})
}

// podsHuge has pods kept with as many labels and ports as the API server takes.
func podsHuge(a *attacker) func(int) client.Object {
	return func(i int) client.Object {
		pod := passing(podOf(a.nth(i, 40), a.name, evilPort))
		for j := range 4000 {
			pod.Labels[fmt.Sprintf("%s.example.com/l%d-%d", strings.Repeat("a", 50), i, j)] = strings.Repeat("v", 63)
		}
		pod.Spec.Containers[0].Ports = nil
		for j := range 1000 {
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: int32(1 + j)})
		}
		return pod
	}
}

// forgeCrash writes the webhook's status and the kubelet's on a pod: that its container was
// given something unrequested, and has exited because of it.
func (a *attacker) forgeCrash(ctx context.Context, pod, message string) error {
	container := podOf(pod, a.name, evilPort).Spec.Containers[0].Name
	status := api.InjectionStatus{Secret: "mine", Attempts: map[string]string{container: api.AttemptOf(pod, message, nil, nil)}}
	ended := time.Now()
	crash := corev1.ContainerStatus{Name: container, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	crash.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 2, Reason: "Error", Message: message, StartedAt: metav1.NewTime(ended.Add(-time.Second)), FinishedAt: metav1.NewTime(ended),
	}
	for _, part := range []struct {
		patch       map[string]any
		subresource []string
	}{
		{map[string]any{"metadata": map[string]any{"labels": map[string]any{api.LabelInjected: "true", api.LabelInject: nil}, "annotations": map[string]string{api.AnnotationStatus: status.Format()}}}, nil},
		{map[string]any{"status": corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{crash}}}, []string{"status"}},
	} {
		patch, err := json.Marshal(part.patch)
		if err != nil {
			return err
		}
		if _, err := a.pods().Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, part.subresource...); err != nil {
			return err
		}
	}
	return nil
}
