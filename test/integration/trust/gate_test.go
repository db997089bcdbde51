package trust

import (
	"io"
	"net/http"
	"sync"
	"testing"
)

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
