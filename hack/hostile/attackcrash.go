package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// crashWords has pods crash again and again, with the status that the webhook would have
// written for another pod, each time with other words that are as long as the API server takes, and
// as pods of another template, so that each is new. The tenant may write what is a kubelet's part:
// see newTenant.
func crashWords(ctx context.Context, a *attacker) {
	const keep = 10
	a.repeat(ctx, 250*time.Millisecond, func(i int) error {
		name := a.nth(i, keep)
		if i < keep {
			if err := a.replace(ctx, podOf(name, a.name, evilPort)); err != nil {
				return err
			}
		}
		return a.forgeCrash(ctx, name, fmt.Sprint("revision-", i), strings.Repeat("unknown a b c ", 2000)+fmt.Sprint(i))
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
// given something, and has exited since. revision is that of the workload's template.
func (a *attacker) forgeCrash(ctx context.Context, pod, revision, message string) error {
	container := podOf(pod, a.name, evilPort).Spec.Containers[0].Name
	status := api.InjectionStatus{Secret: "mine", Containers: map[string]string{container: "files,env,flags"}}
	ended := time.Now()
	crash := corev1.ContainerStatus{Name: container, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	crash.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 2, Reason: "Error", Message: message, StartedAt: metav1.NewTime(ended.Add(-time.Second)), FinishedAt: metav1.NewTime(ended),
	}
	for _, part := range []struct {
		patch       map[string]any
		subresource []string
	}{
		{map[string]any{"metadata": map[string]any{"labels": map[string]any{api.LabelInjected: "true", api.LabelInject: nil, appsv1.DefaultDeploymentUniqueLabelKey: revision}, "annotations": map[string]string{api.AnnotationStatus: status.Format()}}}, nil},
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
