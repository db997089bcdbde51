package trust

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
)

// history is every trust status that anyone could have read.
type history struct {
	mu   sync.Mutex
	said []map[string]string
}

// statusHistory collects from now on.
func statusHistory(t *testing.T) *history {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	watch, err := clientset.CoreV1().ConfigMaps(system).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + api.TrustStatusName})
	require.NoError(t, err)
	h, done := &history{}, make(chan struct{})
	go func() {
		defer close(done)
		for e := range watch.ResultChan() {
			if cm, ok := e.Object.(*corev1.ConfigMap); ok {
				h.mu.Lock()
				h.said = append(h.said, cm.Data)
				h.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return h
}

// of returns what was said of a bundle.
func (h *history) of(t *testing.T, bundle string) []map[string]string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []map[string]string
	for _, data := range h.said {
		if data[api.TrustBundleHash] == hash(t, bundle) {
			out = append(out, data)
		}
	}
	return out
}

// claimsAll reports whether the status is the signer's evidence that everyone holds
// the bundle.
func claimsAll(data map[string]string) bool {
	return data[api.TrustHolding] == data[api.TrustTargets] && data[api.TrustPending] == "0" && data[api.TrustRefusing] == "0"
}

func configMapOf(namespace string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		return req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/"+namespace+"/configmaps/")
	}
}

// The signer lets a new CA sign as soon as the status says that all hold its root:
// that must never be said while one of many does not.
func TestStatusWaitsForTheLast(t *testing.T) {
	const namespaces = 30
	first, second := newBundle(t), newBundle(t)
	setSource(t, first)
	r := startRotator(t)
	var all []string
	for range namespaces {
		all = append(all, newNamespace(t))
	}
	config := mutating("evidence", byService("a"))
	create(t, config)
	everyone := fmt.Sprint(namespaces + 1)
	status(t, map[string]string{api.TrustBundleHash: hash(t, first), api.TrustHolding: everyone, api.TrustTargets: everyone})

	h := statusHistory(t)
	slow := r.hold(t, configMapOf(all[0]))
	setSource(t, second)
	got := status(t, map[string]string{api.TrustBundleHash: hash(t, second), api.TrustHolding: fmt.Sprint(namespaces), api.TrustPending: "1", api.TrustTargets: everyone})
	assert.Contains(t, got[api.TrustNotHolding], "NamespaceConfigMap "+all[0]+"/"+api.BundleName+": Differs: ")
	for _, ns := range all[1:] {
		holds(t, ns, second)
	}
	caBundles(t, "evidence", second)
	r.settled(t)
	for _, said := range h.of(t, second) {
		require.False(t, claimsAll(said), "%v, and %s held the bundle before", said, all[0])
	}

	slow.release()
	status(t, map[string]string{api.TrustBundleHash: hash(t, second), api.TrustHolding: everyone, api.TrustPending: "0"})
	holds(t, all[0], second)
}

// A write that was answered is not yet one that is known to last: only what the API
// server says of the object counts.
func TestStatusBelievesWhatIsSeen(t *testing.T) {
	const namespaces = 5
	first, second := newBundle(t), newBundle(t)
	setSource(t, first)
	r := startRotator(t)
	var all []string
	for range namespaces {
		all = append(all, newNamespace(t))
	}
	status(t, map[string]string{api.TrustBundleHash: hash(t, first), api.TrustHolding: fmt.Sprint(namespaces)})

	h := statusHistory(t)
	blind := r.hold(t, func(req *http.Request) bool {
		return isWatch(req) && strings.Contains(req.URL.RawQuery, api.BundleName)
	})
	setSource(t, second)
	for _, ns := range all {
		holds(t, ns, second)
	}
	status(t, map[string]string{api.TrustBundleHash: hash(t, second), api.TrustHolding: "0", api.TrustPending: fmt.Sprint(namespaces)})
	r.settled(t)
	for _, said := range h.of(t, second) {
		require.Equal(t, "0", said[api.TrustHolding], "%v", said)
	}

	blind.release()
	status(t, map[string]string{api.TrustBundleHash: hash(t, second), api.TrustHolding: fmt.Sprint(namespaces), api.TrustPending: "0"})
}

// A process that begins says nothing before it has seen every kind; what another
// said before stands until then.
func TestStatusOfANewProcess(t *testing.T) {
	first, second := newBundle(t), newBundle(t)
	setSource(t, first)
	ns := newNamespace(t)
	create(t, mutating("late", byService("a")))
	setSource(t, second)
	h := statusHistory(t)
	r := startRotatorHeld(t, func(req *http.Request) bool { return configMapOf(ns)(req) })
	status(t, map[string]string{api.TrustBundleHash: hash(t, second), api.TrustTargets: "2", api.TrustPending: "1"})
	r.settled(t)
	for _, said := range h.of(t, second) {
		require.Equal(t, "2", said[api.TrustTargets], "%v: what has not been seen yet does not fail to exist", said)
		require.False(t, claimsAll(said), "%v", said)
	}
}

// gate holds requests of a rotator up, as a slow API server does, until it opens.
type gate struct {
	match func(*http.Request) bool
	once  sync.Once
	open  chan struct{}
}

// hold makes what matches wait until the gate is opened, or the test ends: writes
// before they are sent, watches before what they say is read.
func (r *rotator) hold(t *testing.T, match func(*http.Request) bool) *gate {
	t.Helper()
	g := &gate{match: match, open: make(chan struct{})}
	r.requests.mu.Lock()
	r.requests.gates = append(r.requests.gates, g)
	r.requests.mu.Unlock()
	t.Cleanup(g.release)
	return g
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// wait returns when no gate that matches is closed, or the request was given up.
func (r *requests) wait(req *http.Request) {
	r.mu.Lock()
	gates := r.gates
	r.mu.Unlock()
	for _, g := range gates {
		if !g.match(req) {
			continue
		}
		select {
		case <-g.open:
		case <-req.Context().Done():
		}
	}
}

// gatedBody is what a watch says.
type gatedBody struct {
	io.ReadCloser
	requests *requests
	of       *http.Request
}

func (b gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.requests.wait(b.of)
	return n, err
}

func isWatch(req *http.Request) bool { return req.URL.Query().Get("watch") == "true" }
