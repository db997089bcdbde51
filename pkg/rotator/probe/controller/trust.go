package controller

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Trust reads the published state of the CA.
type Trust struct {
	// Cache has the ConfigMap with the CA's status, and no other object.
	Cache cache.Cache
	key   types.NamespacedName

	mu      sync.Mutex
	version string // of the ConfigMap that was read last
	latest  probe.Trust
}

// addTrust reads the ConfigMap of that name: the status of the CA, or of the one for clients.
func addTrust(c *cluster.Cluster, name string) (*Trust, error) {
	reader, err := c.ConfigMap(name)
	if err != nil {
		return nil, err
	}
	if _, err := reader.GetInformer(context.Background(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watch the CA bundle: %w", err)
	}
	return &Trust{Cache: reader, key: types.NamespacedName{Namespace: c.Namespace, Name: name}}, nil
}

// Get returns the published state, or the last valid one if that was deleted or is invalid.
func (t *Trust) Get(ctx context.Context) probe.Trust {
	var cm corev1.ConfigMap
	err := t.Cache.Get(ctx, t.key, &cm, client.UnsafeDisableDeepCopy) // for each dial, and only read
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || cm.ResourceVersion == t.version {
		return t.latest
	}
	t.version = cm.ResourceVersion
	if published, err := probe.TrustOf(api.ParseCAStatus(cm.Data)); err == nil {
		t.latest = published
	}
	return t.latest
}
