package rotator

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Workload is what makes pods of one template. The zero value stands for bare
// pods, which nothing makes.
type Workload struct {
	APIVersion, Kind, Name string
	UID                    types.UID // empty for a Deployment, which is known by name only
}

// Kinds that kubectl rollout restart knows.
var restartable = map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true}

// workloadOf returns the top of the pod's chain of controllers as far as the pod
// itself tells: its controller, or the Deployment above that if the name is one
// that a Deployment gives its ReplicaSets, NAME-HASH.
func workloadOf(pod *corev1.Pod) Workload {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return Workload{}
	}
	w := Workload{owner.APIVersion, owner.Kind, owner.Name, owner.UID}
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if w.is("ReplicaSet") && hash != "" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && name != "" {
			return Workload{APIVersion: owner.APIVersion, Kind: "Deployment", Name: name}
		}
	}
	return w
}

// Restartable reports whether it is of a kind that kubectl rollout restart knows.
func (w Workload) Restartable() bool { return restartable[w.Kind] && w.is(w.Kind) }

func (w Workload) is(kind string) bool {
	return w.APIVersion == appsv1.SchemeGroupVersion.String() && w.Kind == kind
}

// advice says what makes the workload's pods anew. The pod is one of them.
func (w Workload) advice(namespace, pod string) string {
	switch {
	case w == Workload{}:
		return "recreate it"
	case w.Restartable():
		return fmt.Sprintf("restart it: kubectl rollout restart %s/%s -n %s", strings.ToLower(w.Kind), w.Name, namespace)
	case w.APIVersion == batchv1.SchemeGroupVersion.String() && w.Kind == "Job":
		return "delete it and create it again (a CronJob's next Job has it by itself)"
	}
	return fmt.Sprintf("delete its pods, one after the other, and it makes new ones: kubectl delete pod %s -n %s", pod, namespace)
}
