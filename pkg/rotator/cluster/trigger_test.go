package cluster

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// No request is lost, whenever the controller starts.
func TestTriggerKeepsEarlyRequests(t *testing.T) {
	s := NewTrigger("test", 0)
	s.EnqueueNamespace("before")
	s.EnqueueNamespace("before")
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	require.NoError(t, s.Start(context.Background(), q))
	s.EnqueueNamespace("after")
	got := map[string]bool{}
	for range 2 {
		item, _ := q.Get()
		got[item.Name] = true
		q.Done(item)
	}
	assert.Equal(t, map[string]bool{"before": true, "after": true}, got)
	assert.Zero(t, q.Len())
}
