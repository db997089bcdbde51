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

// awaitFor bounds how long a write is waited for that a cache does not show: it may have been undone in a gap of
// the watch. Whoever goes on then may write it again.
const awaitFor = 10 * time.Second

// Seen is how far a cache has followed its watch. Resource versions are compared as numbers (KEP-5504). The
// zero value has seen nothing.
type Seen struct {
	mu      sync.Mutex
	version uint64
	rises   chan struct{} // closed when version rises; nil if nobody waits
}

// Set notes that the cache has seen a version.
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

// Await waits until the cache has seen the version, or a later one, with which a write of this process was
// answered: whoever reads the cache afterwards does not write the same again. It waits for a bounded time.
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

// below returns what is closed when the version rises, or nil if it is v or later.
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

// version returns a resource version as the number that it is, and 0 for one that
// is not a number.
func version(resourceVersion string) uint64 {
	v, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// SeenBy returns what the cache sees of a kind.
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
