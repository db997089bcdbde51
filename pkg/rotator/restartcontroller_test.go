package rotator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What the API server would say again is told of; anything else is tried again.
func TestIsRefusal(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"none":             {nil, false},
		"no answer":        {errors.New("connection refused"), false},
		"forbidden":        {apierrors.NewForbidden(deployments, "web", errors.New("by policy")), true},
		"invalid":          {apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", nil), true},
		"bad request":      {apierrors.NewBadRequest("what?"), true},
		"too many":         {apierrors.NewTooManyRequests("wait", 1), false},
		"a broken webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"unavailable":      {apierrors.NewServiceUnavailable("starting"), false},
		"wrapped":          {fmt.Errorf("restart: %w", apierrors.NewForbidden(deployments, "web", nil)), true},
	} {
		assert.Equal(t, tt.want, isRefusal(tt.err), name)
	}
}

// Nothing that was asked for is lost, whenever the controller starts.
func TestLooksAreKept(t *testing.T) {
	s := &namespaceSource{}
	s.look("before")
	s.look("before")
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	require.NoError(t, s.Start(context.Background(), q))
	s.look("after")
	got := map[string]bool{}
	for range 2 {
		item, _ := q.Get()
		got[item.Name] = true
		q.Done(item)
	}
	assert.Equal(t, map[string]bool{"before": true, "after": true}, got)
	assert.Zero(t, q.Len())
}

// What is remembered ends: a restart that was refused is tried again, and what was
// restarted long ago is not what somebody takes back today.
func TestWhatIsForgotten(t *testing.T) {
	elected := make(chan struct{})
	s := newRestartState(elected)
	web, cfg := staleOf(webWorkload), DefaultRestartConfig()
	s.refuse("shop", web, refusal{restartNow, "no"})
	s.started("shop", restartSituation{now: restartNow, stale: []staleWorkload{web}}, webWorkload)
	for _, tt := range []struct {
		after             time.Duration
		refused, restarts int
	}{{0, 1, 1}, {refusedFor * cfg.Retry, 1, 1}, {refusedFor*cfg.Retry + 1, 0, 1}, {rememberRestarts, 0, 1}, {rememberRestarts + 1, 0, 0}} {
		memory := s.situation("shop", cfg, restartNow.Add(tt.after)).memory
		assert.Len(t, memory.refused, tt.refused, tt.after)
		assert.Len(t, memory.restarted, tt.restarts, tt.after)
	}
	s.put("shop", restartDecision{})
	assert.Empty(t, s.namespaces, "what nothing is known of takes no room")
}
