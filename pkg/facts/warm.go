package facts

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// AddCache adds a cache to the manager, which starts it on all replicas. The manager would otherwise start
// it on the leader only.
func AddCache(mgr manager.Manager, c cache.Cache) error { return mgr.Add(everywhere{c}) }

// everywhere is a cache that does not need leader election.
type everywhere struct{ cache.Cache }

// NeedLeaderElection returns false.
func (everywhere) NeedLeaderElection() bool { return false }

// Warm makes a cache watch the kinds from its start. It would otherwise start with the controller that
// watches them, on the leader only, and the next leader would have to list all objects first.
func Warm(ctx context.Context, c cache.Cache, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("cache of %s: %w", kind.GetObjectKind().GroupVersionKind().Kind, err)
		}
	}
	return nil
}
