package facts

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
