package controller

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// retryProbe is how soon a probe is repeated that the API server did not answer.
const retryProbe = time.Second

// keeper runs a cache and a controller for one kind while the API server has it, so that no
// kind waits for another. It waits until the kind can be watched, watches nothing before, and
// begins again when the kind was away: permissions, too, can be granted and revoked.
type keeper struct {
	name   string // of the controller
	mgr    manager.Manager
	cfg    Config
	prober prober
	// find returns how the kind is kept as it is served, and whether it can be watched.
	find func(context.Context) (kept, trust.KindState, string)
	// report is called whenever it cannot.
	report func(context.Context, trust.KindState, string)
}

// kept is how a kind is kept.
type kept struct {
	reads      []target.Read
	watches    func(cache.Cache) []source.Source
	reconciler func(client.Reader) reconcile.Reconciler
	// filled is called once the cache has all that is read.
	filled func(context.Context, client.Reader)
	// definition names the kind's CustomResourceDefinition, "" for a kind that is built in.
	definition string
}

// Start runs until ctx ends; a manager calls it on the leader.
func (k *keeper) Start(ctx context.Context) error {
	for {
		kept, state, message := k.find(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it is to end
		}
		wait := k.cfg.ProbeInterval
		switch state {
		case trust.KindWatched:
			if err := k.run(ctx, kept); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			continue
		case trust.KindStarting:
			wait = min(wait, retryProbe)
		}
		k.report(ctx, state, message)
		if !sleep(ctx, wait) {
			return nil
		}
	}
}

// run keeps the kind until it cannot be watched any more, or ctx ends.
func (k *keeper) run(ctx context.Context, kept kept) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	definition := k.definition(ctx, kept.definition)
	objects, err := newCache(ctx, k.mgr, kept.reads)
	if err != nil {
		return err
	}
	c, err := newController(k.mgr, k.cfg, k.name, k.cfg.Workers, kept.reconciler(objects), kept.watches(objects))
	if err != nil {
		return err
	}
	started := func(run func(context.Context) error) func(context.Context) error { // a read from a cache that was not started fails
		return func(ctx context.Context) error {
			if !objects.WaitForCacheSync(ctx) {
				return nil
			}
			return run(ctx)
		}
	}
	observe := func(ctx context.Context) error { return k.observe(ctx, kept, objects, definition) }
	var group errgroup.Group
	for _, run := range []func(context.Context) error{objects.Start, started(c.Start), started(observe)} {
		group.Go(func() error {
			defer stop() // all or none
			return run(ctx)
		})
	}
	return group.Wait()
}

// observe returns when the kind cannot be watched any more. An API server that gives no answer
// changes nothing. It returns, too, if the kind was removed and came back in between: the
// objects of before are deleted then, and an informer may not be told for as long as its watch
// lasts.
func (k *keeper) observe(ctx context.Context, kept kept, objects cache.Cache, definition types.UID) error {
	for _, r := range kept.reads {
		if _, err := objects.GetInformer(ctx, r.Object); err != nil { // it waits until the cache is filled
			if ctx.Err() != nil {
				return nil //nolint:nilerr // it is to end
			}
			return fmt.Errorf("fill a cache: %w", err)
		}
	}
	kept.filled(ctx, objects)
	for sleep(ctx, k.cfg.ProbeInterval) {
		state, message := kindStateOf(k.prober.probe(ctx, kept.reads))
		if ctx.Err() == nil && (state == trust.KindAbsent || state == trust.KindRefused) {
			k.report(ctx, state, message)
			return nil
		}
		if now := k.definition(ctx, kept.definition); now != "" && now != definition {
			return nil
		}
	}
	return nil
}

// definition returns the UID of the CustomResourceDefinition, "" if it cannot be read.
func (k *keeper) definition(ctx context.Context, name string) types.UID {
	if name == "" {
		return ""
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := k.prober.live.Get(ctx, types.NamespacedName{Name: name}, crd); err != nil {
		return ""
	}
	return crd.UID
}

// sleep waits for d, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
