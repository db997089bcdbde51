package ca

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
)

var errInjected = errors.New("injected failure")

// failing fails the n-th write, from 1: before it reaches the API server, or
// after, so that only the reply is lost. made counts the CA Secrets.
func failing(n int32, replyLost bool, made *atomic.Int32) interceptor.Funcs {
	var writes atomic.Int32
	return around(func(object any, write func() error) error {
		hit := writes.Add(1) == n
		if hit && !replyLost {
			return errInjected
		}
		secret, isSecret := object.(*corev1.Secret)
		isNew := isSecret && secret.ResourceVersion == ""
		if err := write(); err != nil {
			return err
		}
		if isNew {
			made.Add(1)
		}
		if hit {
			return errInjected
		}
		return nil
	})
}

// around calls do in place of each write, with its object and the write itself.
func around(do func(object any, write func() error) error) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return do(object, func() error { return c.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return do(object, func() error { return c.Update(ctx, object, options...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			return do(object, func() error { return c.Apply(ctx, object, options...) })
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
	s.eventuallyReason(t, api.CALost)
}

// A signer that dies at any write of a succession, before it or after, leaves
// what the next one goes on with: one generation is made, and it comes to sign.
func TestDeathAtEveryWriteOfASuccession(t *testing.T) {
	const writes = 6 // prepare, publish, trusted, publish, promote, publish: see dyingAt
	for write := int32(1); write <= writes; write++ {
		for _, replyLost := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, reply lost: %v", write, replyLost), func(t *testing.T) {
				t.Parallel()
				soak := func(c *cacontroller.Config) { c.Soak = 200 * time.Millisecond }
				first, o := started(t, soak)
				before, err := first.Authority()
				require.NoError(t, err)
				first.stop(t)
				patchStatus(t, o, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationRotate: "test"}}})
				stop := trusting(t, o)
				defer stop()

				cfg, err := plane.ServiceAccountConfig(t.Context(), o.namespace, "signer")
				require.NoError(t, err)
				died := make(chan struct{})
				var once sync.Once
				dying := startSignerThrough(t, dyingAt(write, replyLost, func() { once.Do(func() { close(died) }) }), o.namespace, cfg, soak)
				select {
				case <-died:
				case <-time.After(waitFor):
					require.Fail(t, "it made fewer writes")
				}
				dying.stop(t)

				second := startSigner(t, o.namespace, cfg, soak)
				o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { return cm.Data[api.CAGeneration] == "2" })
				second.eventuallyReason(t, "")
				after, err := second.Authority()
				require.NoError(t, err)
				stored, err := ca.ParseState(o.secret(t).Data)
				require.NoError(t, err)
				require.Len(t, stored.Generations, 2, "a step was taken twice")
				assert.True(t, stored.Generations[0].Root.Equal(before.Certificate))
				assert.Nil(t, stored.Generations[0].Key)
				assert.True(t, stored.Generations[1].Root.Equal(after.Certificate))
				assert.Len(t, after.Chain, 1)
			})
		}
	}
}

// dyingAt has the n-th write of a succession, and all that follow, end the process:
// before the write reaches the API server, or after. The k-th write of a CA Secret is
// number 2k-1, and what is published then is 2k: where writes take longer than the soak,
// the step after it comes before it is published, and that is the death then.
func dyingAt(n int32, replyLost bool, die func()) interceptor.Funcs {
	var steps, dead atomic.Int32
	return around(func(object any, write func() error) error {
		number := 2 * steps.Load()
		if _, ok := object.(*corev1.Secret); ok {
			number = 2*steps.Add(1) - 1
		}
		if number < n {
			return write()
		}
		if dead.Add(1) == 1 && replyLost {
			_ = write()
		}
		die()
		return errInjected
	})
}

// trusting says, in the rotator's stead, that the targets hold what is published.
func trusting(t *testing.T, o objects) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	configMaps := admin.CoreV1().ConfigMaps(o.namespace)
	say := func() error {
		cm, err := configMaps.Get(ctx, api.CAStatusName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		data := map[string]string{
			api.TrustBundleHash: cm.Data[api.CABundleHash],
			api.TrustTargets:    "1", api.TrustHolding: "1", api.TrustPending: "0", api.TrustRefusing: "0",
		}
		status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.TrustStatusName}, Data: data}
		if _, err = configMaps.Update(ctx, status, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = configMaps.Create(ctx, status, metav1.CreateOptions{})
		}
		return err
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := say(); err != nil && ctx.Err() == nil {
				t.Errorf("trust status: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(tick):
			}
		}
	}()
	return func() { cancel(); <-done }
}
