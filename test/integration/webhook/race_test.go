package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestServiceAndPodBackToBack: whatever the informers know by then, the pod
// that follows its Service gets its certificate. On a machine so busy that a read of the webhook, or
// its call, runs into a deadline, the pod is refused, and made again as a controller does: no more than one of a hundred.
func TestServiceAndPodBackToBack(t *testing.T) {
	ns := namespace(t, enabled)
	const rounds, workers, mostRefused = 1000, 8, 10
	var next, refused atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := next.Add(1); n <= rounds && !t.Failed(); n = next.Add(1) {
				name := fmt.Sprintf("web-%d", n)
				_, err := client.CoreV1().Services(ns).Create(t.Context(), webService(name), metav1.CreateOptions{})
				if !assert.NoError(t, err) {
					return
				}
				pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod(name), metav1.CreateOptions{})
				for ranIntoDeadline(err) && refused.Add(1) <= mostRefused {
					pod, err = client.CoreV1().Pods(ns).Create(t.Context(), webPod(name), metav1.CreateOptions{})
				}
				if !assert.NoError(t, err) {
					return
				}
				assert.Equal(t, "true", pod.Labels[api.LabelInjected], "pod %s", name)
				assert.Contains(t, pod.Annotations[api.AnnotationStatus], name+"-tls")
			}
		})
	}
	wg.Wait()
	status, page, err := harness.Get(t.Context(), "http://"+hook.metrics+"/metrics")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "servingcert_webhook_") {
			t.Log(strings.TrimSpace(line))
		}
	}
	t.Logf("%d pods were refused for want of time", refused.Load())
	require.NotContains(t, page, ns, "no label of a metric comes from a user")
}

func ranIntoDeadline(err error) bool {
	return err != nil && strings.Contains(err.Error(), context.DeadlineExceeded.Error())
}

// counter counts the requests of a client by verb and resource, watches apart.
type counter struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" {
			c.mu.Lock()
			c.count[r.Method+" "+r.URL.Path]++
			c.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// take returns what was counted since the last call.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.count
	c.count = map[string]int{}
	return out
}

// startLookup runs a Lookup, with informers of its own, whose requests to the
// API server are counted from when it is synced.
func startLookup(t *testing.T) (*admission.Lookup, cache.Cache, *counter) {
	t.Helper()
	counted := &counter{count: map[string]int{}}
	cfg := rest.CopyConfig(cluster.AdminConfig())
	cfg.Wrap(counted.wrap)
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	options := admission.CacheOptions(api.DefaultNamespace, false)
	options.Scheme = scheme
	informers, err := cache.New(cfg, options)
	require.NoError(t, err)
	live, err := crclient.New(cfg, crclient.Options{Scheme: scheme})
	require.NoError(t, err)
	require.NoError(t, admission.StartInformers(t.Context(), informers))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = informers.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.True(t, informers.WaitForCacheSync(ctx))
	lookup := admission.NewLookup(informers, live, func() bool { return true }, false)
	_, err = lookup.Live(t.Context(), namespace(t, enabled)) // discovery of the resources' names
	require.NoError(t, err)
	counted.take()
	return lookup, informers, counted
}

func TestAPICallsOfAReview(t *testing.T) {
	ns := namespace(t, enabled)
	lookup, informers, counted := startLookup(t)
	createService(t, t, ns, webService("web"))
	require.Eventually(t, func() bool {
		known, ok := lookup.Cached(t.Context(), ns)
		return ok && len(known.Services) == 1
	}, harness.Soon, 5*time.Millisecond)
	require.Empty(t, counted.take(), "what the informers know costs no request")
	known, _ := lookup.Cached(t.Context(), ns)
	require.True(t, choose.Secret(webPod("web"), api.PodRequest{}, known).FromServices(), "and is enough for a match")

	var stripped corev1.Service
	require.NoError(t, informers.Get(t.Context(), crclient.ObjectKey{Namespace: "default", Name: "kubernetes"}, &stripped))
	require.Empty(t, stripped.Spec, "a Service that asks for nothing is not kept")
	require.Empty(t, stripped.ManagedFields)

	known, err := lookup.Live(t.Context(), ns)
	require.NoError(t, err)
	require.Len(t, known.Services, 1)
	require.Equal(t, map[string]int{
		"GET /api/v1/namespaces/" + ns + "/services": 1,
		"GET /api/v1/namespaces/" + ns + "/secrets":  1,
	}, counted.take(), "a miss is one read")

	_, err = lookup.Live(t.Context(), "default")
	require.ErrorContains(t, err, "does not have label")
	require.Equal(t, map[string]int{"GET /api/v1/namespaces/default": 1}, counted.take(), "nothing is listed of a namespace that is not opted in")

	const requests = 200
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			<-start
			_, err := lookup.Live(t.Context(), ns)
			assert.NoError(t, err)
		})
	}
	close(start)
	wg.Wait()
	reads := counted.take()["GET /api/v1/namespaces/"+ns+"/services"]
	t.Logf("%d requests at once shared %d reads", requests, reads)
	require.Less(t, reads, requests/4)
}

// TestNamespacesOfALookup: settings come from the informer of opted-in namespaces, and from
// the API server before it has synced. A namespace that is not opted in costs one read.
func TestNamespacesOfALookup(t *testing.T) {
	known, unknown := namespace(t, enabled), namespace(t, nil)
	for _, ns := range []string{known, unknown} {
		annotate(t, ns, map[string]any{api.AnnotationMode: "env", "other.example/a": "b"})
	}
	lookup, informers, counted := startLookup(t)
	want := map[string]string{api.AnnotationMode: "env"}

	got, ok := lookup.Cached(t.Context(), known)
	require.True(t, ok)
	require.Equal(t, want, got.Namespace)
	_, ok = lookup.Cached(t.Context(), unknown)
	require.False(t, ok, "its label may be younger than what the informer has seen")
	_, ok = lookup.Cached(t.Context(), "no-such-namespace")
	require.False(t, ok)
	require.Empty(t, counted.take())

	got, err := lookup.Live(t.Context(), known)
	require.NoError(t, err)
	require.Equal(t, want, got.Namespace)
	require.NotContains(t, counted.take(), "GET /api/v1/namespaces/"+known, "the informer knows it")
	for _, ns := range []string{unknown, "no-such-namespace"} {
		_, err = lookup.Live(t.Context(), ns)
		require.ErrorContains(t, err, "does not have label")
		require.Equal(t, map[string]int{"GET /api/v1/namespaces/" + ns: 1}, counted.take())
	}

	live, err := crclient.New(cluster.AdminConfig(), crclient.Options{})
	require.NoError(t, err)
	unsynced := admission.NewLookup(informers, live, func() bool { return false }, false)
	got, err = unsynced.Live(t.Context(), known)
	require.NoError(t, err)
	require.Equal(t, want, got.Namespace, "before the informers have synced, the API server is asked")

	annotate(t, known, map[string]any{api.AnnotationMode: nil})
	require.Eventually(t, func() bool {
		got, ok := lookup.Cached(t.Context(), known)
		return ok && got.Namespace == nil
	}, harness.Soon, 5*time.Millisecond)
	kept := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	require.NoError(t, informers.Get(t.Context(), crclient.ObjectKey{Name: known}, kept))
	require.Empty(t, kept.Labels, "no more is kept of a namespace")
	require.Empty(t, kept.ManagedFields)
}
