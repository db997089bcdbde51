package ca

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

var errInjected = errors.New("injected failure")

// failing fails the n-th write, from 1: before it reaches the API server, or
// after, so that only the reply is lost. made counts the CA Secrets.
func failing(n int32, replyLost bool, made *atomic.Int32) interceptor.Funcs {
	var writes atomic.Int32
	around := func(write func() error) error {
		hit := writes.Add(1) == n
		if hit && !replyLost {
			return errInjected
		}
		if err := write(); err != nil || !hit {
			return err
		}
		return errInjected
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return around(func() error {
				err := c.Create(ctx, object, options...)
				if _, ok := object.(*corev1.Secret); ok && err == nil {
					made.Add(1)
				}
				return err
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return around(func() error { return c.Update(ctx, object, options...) })
		},
	}
}

// A failure at either of the two writes of a first start, whether the write
// happened or not, ends with one CA that is published and signs.
func TestFailureAtEveryWrite(t *testing.T) {
	for write := int32(1); write <= 2; write++ {
		for _, replyLost := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, reply lost: %v", write, replyLost), func(t *testing.T) {
				namespace, cfg := newNamespace(t)
				var made atomic.Int32
				s := startSignerThrough(t, failing(write, replyLost, &made), namespace, cfg)
				s.eventuallyReason(t, "")
				o := objects{namespace, admin}
				authority, err := s.Authority()
				require.NoError(t, err)
				cm := o.eventuallyStatus(t, func(*corev1.ConfigMap) bool { return true })
				assert.Equal(t, string(authority.Bundle.PEM()), cm.Data[api.BundleKey])
				stored, err := ca.ParseState(o.secret(t).Data)
				require.NoError(t, err)
				assert.True(t, stored.Generations[0].Root.Equal(authority.Certificate))
				assert.Equal(t, int32(1), made.Load(), "CAs that were made")
				require.Eventually(t, func() bool { return strings.Contains(s.log.String(), errInjected.Error()) }, waitFor, tick, "the failure was met")
				assertNoKey(t, o.secret(t).Data["generation-1.key"], s.log.String())
			})
		}
	}
}

// While the API server is away, what was read goes on; what changed meanwhile is
// seen when it is back.
func TestAPIServerAway(t *testing.T) {
	s, o := started(t)
	before, err := s.Authority()
	require.NoError(t, err)
	want := o.status(t)

	plane.StopAPIServer()
	after, err := s.Authority()
	require.NoError(t, err)
	assert.Same(t, before, after)
	assert.NoError(t, s.Ready(nil))
	require.NoError(t, plane.StartAPIServer(t.Context()))

	touch(t, o)
	restored := o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { _, ok := cm.Data["touched"]; return !ok })
	assert.Equal(t, want.Data, restored.Data)
	o.deleteSecret(t)
	s.eventuallyReason(t, ca.ReasonLost)
}
