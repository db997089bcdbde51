package signer

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// requests counts what a signer asks of the API server about objects in the
// namespaces of users. Watches and the lists that begin them are of all
// namespaces and so not among them.
type requests struct {
	system string // the signer's own namespace does not count
	next   http.RoundTripper
	mu     sync.Mutex
	by     map[string]int // "POST secrets", "PATCH services/status" …
}

// of one namespace: group, version, namespace, resource, name, subresource.
var namespaced = regexp.MustCompile(`^/apis?/(?:[^/]+/)?v1/namespaces/([^/]+)/([^/]+)(?:/[^/]+(/[^/]+)?)?$`)

func (c *requests) wrap(next http.RoundTripper) http.RoundTripper {
	c.next, c.by = next, map[string]int{}
	return c
}

func (c *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	if m := namespaced.FindStringSubmatch(r.URL.Path); len(m) > 0 && m[1] != c.system {
		c.mu.Lock()
		c.by[r.Method+" "+m[2]+m[3]]++
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

func (c *requests) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.by
	c.by = map[string]int{}
	return out
}

// A first issue costs two writes and no read: the Secret, and the condition. All
// being well costs nothing, after a restart neither.
func TestRequestsPerCertificate(t *testing.T) {
	const n = 40
	d, ns := newDeployment(t), newNamespace(t)
	for i := range n / 2 {
		makeService(t, ns, fmt.Sprintf("web-%d", i))
	}
	count := requests{system: d.namespace}
	r := startHere(t, d, options{wrap: count.wrap})
	for i := n / 2; i < n; i++ { // and some while it runs
		makeService(t, ns, fmt.Sprintf("web-%d", i))
	}
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		r.waitGood(t, ns, name, name+"-tls")
	}
	first := r.waitGood(t, ns, "web-0", "web-0-tls").fingerprint()
	require.NoError(t, r.stop())
	require.Equal(t, map[string]int{"POST secrets": n, "PATCH services/status": n}, count.take())

	objects := func() map[string]bool {
		services, err := admin.CoreV1().Services(ns).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		secrets, err := admin.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		out := map[string]bool{}
		for _, o := range services.Items {
			out[o.Name+" "+o.ResourceVersion] = true
		}
		for _, o := range secrets.Items {
			out[o.Name+" "+o.ResourceVersion] = true
		}
		return out
	}
	versions := objects()
	r = startHere(t, d, options{wrap: count.wrap})
	makeService(t, ns, "zzz")
	r.waitGood(t, ns, "zzz", "zzz-tls")
	annotate(t, ns, "web-0", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
	r.waitGood(t, ns, "web-0", "web-0-tls", first)
	require.NoError(t, r.stop())
	got := count.take()
	require.Equal(t, 1, got["POST secrets"], "%v", got)
	require.Equal(t, 1, got["PATCH secrets"], "%v", got)
	require.Equal(t, 2, got["PATCH services/status"], "%v", got)
	delete(got, "POST events") // of the one re-issue
	require.Len(t, got, 3)
	now := objects()
	unchanged := slices.DeleteFunc(slices.Collect(maps.Keys(versions)), func(v string) bool { return !now[v] })
	require.Len(t, unchanged, len(versions)-2, "all but web-0 and its Secret")
}
