package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	podfacts "github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// manyLabels is a pod with 8 KB of labels, which no other pod has.
func manyLabels(i int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "mallory", Name: fmt.Sprint("huge-", i), UID: types.UID(fmt.Sprint("u", i)), ResourceVersion: fmt.Sprint(i + 1),
		CreationTimestamp: metav1.Unix(1e9+int64(i), 0), Labels: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", "huge")},
	}}
	for j := range 60 {
		pod.Labels[fmt.Sprintf("%s-%03d-%02d", strings.Repeat("k", 50), i, j)] = strings.Repeat("v", 63)
	}
	return pod
}

// TestWhoHasManyLargePodsTakesNoRoomFromOthers: the newest are not remembered, until older ones are
// gone.
func TestWhoHasManyLargePodsTakesNoRoomFromOthers(t *testing.T) {
	arriving := watch.NewFake()
	share := api.ShareOf(1 << 20)
	pods, err := newPodsFrom(&toolscache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) { return &corev1.PodList{}, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return arriving, nil },
	}, share)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = pods.Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })

	const n = 150
	for i := range n {
		arriving.Add(manyLabels(i))
	}
	arriving.Add(typicalPod(t, 0))
	arriving.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "1000000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	has := func() (whole, reduced int) {
		for _, pod := range pods.In("mallory") {
			if pod.Reduced() {
				reduced++
			} else {
				whole++
			}
		}
		return whole, reduced
	}
	await := func(namespace string, pods func() int, want int) {
		t.Helper()
		require.Eventually(t, func() bool { return pods() == want }, process.Soon, time.Millisecond, namespace)
	}
	typical := typicalPod(t, 0)
	await(typical.Namespace, func() int { return len(pods.In(typical.Namespace)) }, 1)
	await("mallory", func() int { return len(pods.In("mallory")) }, n) // what is listed comes in any order
	assert.False(t, pods.In(typical.Namespace)[0].Reduced())
	whole, reduced := has()
	size := podfacts.FactsOf(manyLabels(0)).Size()
	assert.Positive(t, reduced)
	assert.InDelta(t, share.Namespace, int64(whole)*size, float64(size))
	assert.Zero(t, podfacts.FactsOf(typical).Size(), "what is ordinary counts for nothing")

	for i := range n {
		arriving.Delete(manyLabels(i))
	}
	arriving.Add(manyLabels(n))
	require.Eventually(t, func() bool {
		of := pods.In("mallory")
		return len(of) == 1 && of[0].Name == manyLabels(n).Name
	}, process.Soon, time.Millisecond)
	assert.False(t, pods.In("mallory")[0].Reduced(), "what deleted pods had is there for the next")
}
