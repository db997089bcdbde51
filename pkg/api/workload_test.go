package api_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestKeepsOldPods(t *testing.T) {
	set := func(kind appsv1.StatefulSetUpdateStrategyType, replicas, partition *int32) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: replicas, UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: kind}}}
		if partition != nil {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: partition}
		}
		return s
	}
	const rolling, onDelete = appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType
	assert.False(t, api.KeepsOldPods(set(rolling, nil, nil)))
	assert.False(t, api.KeepsOldPods(set(rolling, new(int32(3)), new(int32(2)))), "one pod is behind the partition")
	assert.True(t, api.KeepsOldPods(set(rolling, new(int32(3)), new(int32(3)))))
	assert.True(t, api.KeepsOldPods(set(rolling, nil, new(int32(1)))), "one replica is the default")
	assert.False(t, api.KeepsOldPods(set(rolling, new(int32(0)), new(int32(0)))), "there are no pods to keep")
	assert.True(t, api.KeepsOldPods(set(onDelete, nil, nil)))

	assert.True(t, api.KeepsOldPods(&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}}}))
	assert.False(t, api.KeepsOldPods(&appsv1.DaemonSet{}))
	assert.False(t, api.KeepsOldPods(&appsv1.Deployment{}))
}
