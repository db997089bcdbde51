package trust

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const (
	backoff       = 500 * time.Millisecond // the longest, in these tests
	statusDelay   = 50 * time.Millisecond
	probeInterval = 200 * time.Millisecond
)

// rotator is one running process, as far as pkg/trust is concerned.
type rotator struct {
	requests *requests
	registry *prometheus.Registry
}

// startRotator runs pkg/trust as the rotator's ServiceAccount until the test ends.
func startRotator(t *testing.T, with ...func(*trustcontroller.Config)) *rotator {
	t.Helper()
	r := &rotator{requests: &requests{}, registry: prometheus.NewRegistry()}
	r.start(t, with...)
	return r
}

// startRotatorHeld is the same with a gate that is closed from the beginning.
func startRotatorHeld(t *testing.T, match func(*http.Request) bool) *rotator {
	t.Helper()
	r := &rotator{requests: &requests{}, registry: prometheus.NewRegistry()}
	r.hold(t, match)
	r.start(t)
	return r
}

func (r *rotator) start(t *testing.T, with ...func(*trustcontroller.Config)) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, trustcontroller.AddToScheme(scheme))
	cfg := rest.CopyConfig(account)
	cfg.Wrap(r.requests.wrap)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:  scheme,
		Metrics: ctrlmetricsserver.Options{BindAddress: "0"},
		Logger:  harness.Logger(t),
	})
	require.NoError(t, err)
	config := trustcontroller.DefaultConfig()
	config.Now, config.Metrics = time.Now, r.registry
	config.MaxBackoff, config.StatusDelay, config.ProbeInterval = backoff, statusDelay, probeInterval
	for _, set := range with {
		set(&config)
	}
	require.NoError(t, trustcontroller.Setup(mgr, config))

	stop := harness.RunManager(mgr)
	t.Cleanup(func() { require.NoError(t, stop()) })
}

// compat lets OpenShift's annotations count.
func compat(c *trustcontroller.Config) { c.OpenShift = true }

// requests are the writes that a rotator sent, in order.
type requests struct {
	mu     sync.Mutex
	writes []string // METHOD PATH
	gates  []*gate
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet {
			r.mu.Lock()
			r.writes = append(r.writes, req.Method+" "+req.URL.Path)
			r.mu.Unlock()
			r.wait(req)
		}
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if isWatch(req) {
			resp.Body = gatedBody{resp.Body, r, req}
		}
		return resp, nil
	})
}

// count returns the number of writes to paths that contain part.
func (r *requests) count(part string) int { return len(r.to(part)) }

// to returns the writes to paths that contain part.
func (r *requests) to(part string) []string {
	return slices.DeleteFunc(r.since(0), func(w string) bool { return !strings.Contains(w, part) })
}

// since returns the writes after the first n.
func (r *requests) since(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes[n:])
}

// newRoot returns a CA certificate of generation n that ends at notAfter.
func newRoot(t *testing.T, n int, notAfter time.Time) pki.Bundle {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, n, api.DefaultLimits().Constraints(), pki.NotBefore(time.Now()), notAfter)
	require.NoError(t, err)
	return pki.NewBundle(root)
}

// newBundle returns a bundle of one fresh root.
func newBundle(t *testing.T) string {
	t.Helper()
	return string(newRoot(t, 1, time.Now().Add(time.Hour)).PEM())
}

// setSource writes what the signer writes, and removes it when the test ends.
func setSource(t *testing.T, bundle string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CAStatusName}}
	err := admin.Get(t.Context(), client.ObjectKeyFromObject(cm), cm)
	cm.Data = map[string]string{api.BundleKey: bundle, "phase": "Stable"}
	if apierrors.IsNotFound(err) {
		require.NoError(t, admin.Create(t.Context(), cm))
		t.Cleanup(func() { remove(t, cm) })
		return
	}
	require.NoError(t, err)
	require.NoError(t, admin.Update(t.Context(), cm))
}

// remove deletes an object, which need not be there.
func remove(t *testing.T, obj client.Object) {
	t.Helper()
	require.NoError(t, client.IgnoreNotFound(admin.Delete(context.WithoutCancel(t.Context()), obj)))
}

// removeAndWait deletes objects, and waits until the API server has forgotten them.
func removeAndWait[T client.Object](t *testing.T, objects ...T) {
	t.Helper()
	require.NoError(t, harness.Remove(context.WithoutCancel(t.Context()), admin, objects...))
}

// newNamespace makes an opted-in namespace, and deletes it when the test ends.
func newNamespace(t *testing.T) string {
	t.Helper()
	return harness.TemporaryNamespace(t, admin, true)
}

// create makes an object, and deletes it when the test ends.
func create(t *testing.T, obj client.Object) {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), obj))
	t.Cleanup(func() { remove(t, obj) })
}

func bundleConfigMap(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.BundleName}}
}

// read returns the object as the API server has it. It may be called in a cleanup.
func read[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	require.NoError(t, admin.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(obj), obj))
	return obj
}

// holds waits until the namespace's ConfigMap has the bundle.
func holds(t *testing.T, namespace, bundle string) {
	t.Helper()
	harness.Eventually(t, func() error {
		cm := bundleConfigMap(namespace)
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
			return err
		}
		if cm.Data[api.BundleKey] != bundle {
			return fmt.Errorf("ConfigMap in %s holds %.40q, want %.40q", namespace, cm.Data[api.BundleKey], bundle)
		}
		return nil
	})
}

// passed waits until a new namespace was served, after what the watches had
// sent before it.
func passed(t *testing.T, bundle string) {
	t.Helper()
	holds(t, newNamespace(t), bundle)
}

// status waits until the trust status says all that want says.
func status(t *testing.T, want map[string]string) map[string]string {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.TrustStatusName}}
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
			return err
		}
		for k, v := range want {
			if cm.Data[k] != v {
				return fmt.Errorf("trust status: %s is %q, want %q; all of it: %v", k, cm.Data[k], v, cm.Data)
			}
		}
		return nil
	})
	return cm.Data
}
