package facts

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// AddCache adds a cache to the manager, to run where that does not lead, too. The manager
// itself would start a cache of some namespaces, or with selectors, on the leader alone.
func AddCache(mgr manager.Manager, c cache.Cache) error { return mgr.Add(everywhere{c}) }

// everywhere is a cache that does not wait for the Lease.
type everywhere struct{ cache.Cache }

// NeedLeaderElection tells the manager so.
func (everywhere) NeedLeaderElection() bool { return false }

// Warm has a cache hold objects of these kinds from its start. It would otherwise begin with
// the controller that watches them, on the leader alone: the next leader would first have to
// list them all.
func Warm(ctx context.Context, c cache.Cache, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("cache of %s: %w", kind.GetObjectKind().GroupVersionKind().Kind, err)
		}
	}
	return nil
}
