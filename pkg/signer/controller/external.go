package controller

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/signer"
)

// externals remembers the Secrets of other issuers, without their keys.
type externals struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*signer.External
}

func (e *externals) get(key types.NamespacedName) *signer.External {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byKey[key]
}

// set remembers the Secret, or forgets it if known is nil.
func (e *externals) set(key types.NamespacedName, known *signer.External) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known == nil {
		delete(e.byKey, key)
		return
	}
	if e.byKey == nil {
		e.byKey = map[types.NamespacedName]*signer.External{}
	}
	e.byKey[key] = known
}

// forget forgets all Secrets of a namespace.
func (e *externals) forget(namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.byKey, func(key types.NamespacedName, _ *signer.External) bool { return key.Namespace == namespace })
}

func (e *externals) all() map[types.NamespacedName]*signer.External {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.byKey)
}

// readExternal reads the Secret of another issuer from the API server. Its metadata in the cache tell
// when that is needed.
func (c *Controller) readExternal(ctx context.Context, s signer.Situation) (signer.Situation, error) {
	var secret corev1.Secret
	switch err := c.live.Get(ctx, s.Key, &secret); {
	case apierrors.IsNotFound(err):
		s.Secret, s.Unmanaged = nil, nil
		c.externals.set(s.Key, s.External.Absent(s.Key, s.Now))
		return s, nil
	case err != nil:
		return s, fmt.Errorf("read Secret %s: %w", s.Key, err)
	}
	s.External = signer.ExternalOf(&secret, c.config.Instance, s.External, s.Bundle, s.Now)
	s.Secret, s.Unmanaged = nil, &s.External.ObjectMeta // the cache may have an older version
	c.externals.set(s.Key, s.External)
	return s, nil
}
