package controller

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
)

// bundle knows the roots that the signer publishes.
type bundle struct {
	reader cache.Cache
	key    types.NamespacedName

	mu      sync.Mutex
	version string // of the ConfigMap that was read last
	latest  pki.Bundle
}

func addBundle(c *cluster.Cluster) (*bundle, error) {
	reader, err := c.ConfigMap(api.CAStatusName)
	if err != nil {
		return nil, err
	}
	if _, err := reader.GetInformer(context.Background(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watch the CA bundle: %w", err)
	}
	return &bundle{reader: reader, key: types.NamespacedName{Namespace: c.Namespace, Name: api.CAStatusName}}, nil
}

// get returns the roots. If what is published is gone or cannot be read, those that
// were published before stay known.
func (b *bundle) get(ctx context.Context) pki.Bundle {
	var cm corev1.ConfigMap
	err := b.reader.Get(ctx, b.key, &cm)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || cm.ResourceVersion == b.version {
		return b.latest
	}
	b.version = cm.ResourceVersion
	if parsed, err := pki.ParseBundle([]byte(cm.Data[api.BundleKey])); err == nil {
		b.latest = parsed
	}
	return b.latest
}
