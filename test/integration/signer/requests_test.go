package signer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

// requests counts what a signer asks of the API server about objects in the
// namespaces of users. Watches and the lists that begin them are of all
// namespaces and so not among them, unless they ask for the data of Secrets without the signer's label.
type requests struct {
	of   string // the namespace that counts: those of tests before may be going yet
	late string // path of what is watched with a delay
	next http.RoundTripper
	mu   sync.Mutex
	by   map[string]int // "POST secrets", "PATCH services/status" …
}

// of one namespace: group, version, namespace, resource, name, subresource.
var namespaced = regexp.MustCompile(`^/apis?/(?:[^/]+/)?v1/namespaces/([^/]+)/([^/]+)(?:/[^/]+(/[^/]+)?)?$`)

func (c *requests) wrap(next http.RoundTripper) http.RoundTripper {
	c.next, c.by = next, map[string]int{}
	return c
}

func (c *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.late != "" && r.URL.Path == c.late && r.URL.Query().Get("watch") != "" {
		response, err := c.next.RoundTrip(r)
		if err == nil {
			response.Body = newLateBody(response.Body)
		}
		return response, err
	}
	if selector := r.URL.Query().Get("labelSelector"); r.URL.Path == "/api/v1/secrets" && !strings.HasPrefix(selector, api.LabelManagedBy+"=") && !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		c.mu.Lock()
		c.by[r.Method+" the data of all Secrets"]++
		c.mu.Unlock()
	}
	if m := namespaced.FindStringSubmatch(r.URL.Path); len(m) > 0 && m[1] == c.of {
		c.mu.Lock()
		c.by[r.Method+" "+m[2]+m[3]]++
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// lateness is how far behind a cache is that is told late.
const lateness = 300 * time.Millisecond

// lateBody passes on what is read from next, all of it by the lateness later.
type lateBody struct {
	io.Reader
	io.Closer
}

func newLateBody(next io.ReadCloser) lateBody {
	type chunk struct {
		data []byte
		at   time.Time
	}
	chunks := make(chan chunk, 10000)
	go func() {
		defer close(chunks)
		for {
			data := make([]byte, 64<<10)
			n, err := next.Read(data)
			if err != nil {
				return
			}
			chunks <- chunk{data[:n], time.Now().Add(lateness)}
		}
	}()
	r, w := io.Pipe()
	go func() {
		for c := range chunks {
			time.Sleep(time.Until(c.at))
			if _, err := w.Write(c.data); err != nil {
				return
			}
		}
		_ = w.Close()
	}()
	return lateBody{r, closers{r, next}}
}

// closers closes both.
type closers [2]io.Closer

func (c closers) Close() error { return errors.Join(c[0].Close(), c[1].Close()) }

func (c *requests) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.by
	c.by = map[string]int{}
	return out
}

// A first issue costs two writes and no read: the Secret, and the condition. All
// being well costs nothing, after a restart neither. A cache that is behind what
// was just written changes nothing about it.
func TestRequestsPerCertificate(t *testing.T) {
	for name, late := range map[string]string{"caches up to date": "", "Secrets come late": "/api/v1/secrets", "Services come late": "/api/v1/services"} {
		t.Run(name, func(t *testing.T) { countRequests(t, late) })
	}
}

func countRequests(t *testing.T, late string) {
	const n = 20
	d, ns := newDeployment(t), newNamespace(t)
	for i := range n / 2 {
		makeService(t, ns, fmt.Sprintf("web-%d", i))
	}
	count := requests{of: ns, late: late}
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

	before := versionsIn(t, ns)
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
	now := versionsIn(t, ns)
	unchanged := slices.DeleteFunc(before, func(v string) bool { return !slices.Contains(now, v) })
	require.Len(t, unchanged, 2*n-2, "all but web-0 and its Secret")
}
