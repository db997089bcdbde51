package api

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// restartable are the kinds of group apps that kubectl rollout restart supports.
var restartable = []string{"Deployment", "StatefulSet", "DaemonSet"}

// Restartable reports whether kubectl rollout restart, and therefore the rotator, supports the kind
// of group apps.
func Restartable(kind string) bool { return slices.Contains(restartable, kind) }

// KeepsOldPods reports whether the update strategy of the workload keeps its pods when the template
// changes: OnDelete, or a partition that covers all replicas.
func KeepsOldPods(workload runtime.Object) bool {
	switch w := workload.(type) {
	case *appsv1.StatefulSet:
		replicas := int32(1)
		if w.Spec.Replicas != nil {
			replicas = *w.Spec.Replicas
		}
		rolling := w.Spec.UpdateStrategy.RollingUpdate
		behind := rolling != nil && rolling.Partition != nil && *rolling.Partition >= replicas && replicas > 0
		return behind || w.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	case *appsv1.DaemonSet:
		return w.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	}
	return false
}
