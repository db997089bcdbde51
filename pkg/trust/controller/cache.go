package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// newCache returns a cache of the objects that reads lists, stripped.
func newCache(ctx context.Context, mgr manager.Manager, reads []target.Read) (cache.Cache, error) {
	c, err := facts.NewCache(mgr, cacheOptions(reads))
	if err != nil {
		return nil, err
	}
	for _, r := range reads {
		if r.Index == nil {
			continue
		}
		if err := c.IndexField(ctx, r.Object, target.IndexRequested, r.Index); err != nil {
			return nil, fmt.Errorf("index a cache: %w", err)
		}
	}
	return c, nil
}

// cacheOptions lists everything in pages: there may be too many objects of any kind to be in memory
// before they are stripped.
func cacheOptions(reads []target.Read) cache.Options {
	byObject := map[client.Object]cache.ByObject{}
	for _, r := range reads {
		byObject[r.Object] = r.By
	}
	return facts.Paged(cache.Options{ByObject: byObject})
}

// oneConfigMap selects one object, so that RBAC can be narrowed to its name.
func oneConfigMap(namespace, name string, strip func(client.Object)) []target.Read {
	return []target.Read{{Object: &corev1.ConfigMap{}, By: cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {FieldSelector: target.ByName(name)}},
		Transform:  target.Transform(strip),
	}}}
}
