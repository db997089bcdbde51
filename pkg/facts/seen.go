package facts

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaitFor is the maximum time to wait for a write to appear in a cache. It may never appear, if it was undone in a
// gap of the watch. After the timeout, the caller may write again.
const awaitFor = 10 * time.Second

// Seen is the latest resource version that a cache has seen. Resource versions are compared as numbers (KEP-5504).
type Seen struct {
	mu      sync.Mutex
	version uint64
	rises   chan struct{} // closed when version rises; nil if nothing waits
}

// Set records that the cache has seen a version.
func (s *Seen) Set(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := version(resourceVersion)
	if v <= s.version {
		return
	}
	s.version = v
	if s.rises != nil {
		close(s.rises)
		s.rises = nil
	}
}

// Await waits until the cache has seen the resource version of a write, or a later one, so that a reader of the
// cache does not repeat the write. It waits for a bounded time.
func (s *Seen) Await(ctx context.Context, resourceVersion string) {
	ctx, cancel := context.WithTimeout(ctx, awaitFor)
	defer cancel()
	for v := version(resourceVersion); ; {
		rises := s.below(v)
		if rises == nil {
			return
		}
		select {
		case <-rises:
		case <-ctx.Done():
			return
		}
	}
}

// below returns a channel that is closed when the version rises, or nil if the version is v or later.
func (s *Seen) below(v uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version >= v {
		return nil
	}
	if s.rises == nil {
		s.rises = make(chan struct{})
	}
	return s.rises
}

// version parses a resource version. It returns 0 if that is not a number.
func version(resourceVersion string) uint64 {
	v, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// SeenBy returns the Seen of the cache for a kind.
func SeenBy(ctx context.Context, c cache.Cache, kind client.Object) (*Seen, error) {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("cache of %T: %w", kind, err)
	}
	s := &Seen{}
	set := func(object any) {
		if m, ok := object.(metav1.Object); ok {
			s.Set(m.GetResourceVersion())
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: set, UpdateFunc: func(_, object any) { set(object) }, DeleteFunc: set})
	return s, err
}
