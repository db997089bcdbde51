package facts

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// NewCache returns a cache that reads with the manager's client. It is not added to the manager.
func NewCache(mgr manager.Manager, options cache.Options) (cache.Cache, error) {
	options.HTTPClient, options.Scheme, options.Mapper = mgr.GetHTTPClient(), mgr.GetScheme(), mgr.GetRESTMapper()
	made, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	return made, nil
}

// AddCache returns a new cache that watches the kinds from its start, and adds it to the manager, which starts
// it on all replicas. The manager would otherwise start it on the leader only.
func AddCache(mgr manager.Manager, options cache.Options, kinds ...client.Object) (cache.Cache, error) {
	made, err := NewCache(mgr, options)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(everywhere{made}); err != nil {
		return nil, fmt.Errorf("add a cache: %w", err)
	}
	return made, Warm(context.Background(), made, kinds...) // which does not wait
}

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
