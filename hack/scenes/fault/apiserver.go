// Package fault has the means to break what servingcert stands on: an API server that answers
// wrongly, a clock that is wrong, and a disk that is full.
package fault

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// silence is how long a request waits for an answer that does not come.
const silence = 4 * time.Second

// answer is what a request gets.
type answer struct {
	name  string
	serve func(forward http.Handler, w http.ResponseWriter, r *http.Request)
}

// answers are the right one, and those of requests that fail. The last two are for writes: reads have
// no conflicts, and no effect that the client could miss.
var answers = []answer{
	{"passed", http.Handler.ServeHTTP},
	{"429", refuse(apierrors.NewTooManyRequests("too many requests, please try again later", 1))},
	{"500", refuse(apierrors.NewInternalError(errors.New("broken on purpose")))},
	{"no answer", func(_ http.Handler, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(silence):
		}
		panic(http.ErrAbortHandler)
	}},
	{"connection cut", func(http.Handler, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	{"409", refuse(apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, "x", errors.New("somebody else wrote it")))},
	{"answer lost", func(forward http.Handler, _ http.ResponseWriter, r *http.Request) {
		forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}},
}

// choose returns what a request gets where a share of them fails, from two numbers of [0,1).
func choose(method string, share, u, v float64) answer {
	possible := answers[1:]
	if method == http.MethodGet {
		possible = possible[:len(possible)-2]
	}
	if u >= share {
		return answers[0]
	}
	return possible[int(v*float64(len(possible)))]
}

// APIServer is a proxy before the API server that can fail a share of the requests. Clients
// authenticate with tokens, which it hands on.
type APIServer struct {
	// CA is what its clients have to trust, in PEM.
	CA []byte

	server *httptest.Server
	mu     sync.Mutex
	share  float64
	count  map[string]int
}

// NewAPIServer listens on loopback in front of the API server that a configuration leads to.
func NewAPIServer(cfg *rest.Config) (*APIServer, error) {
	target, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(cfg))
	if err != nil {
		return nil, err
	}
	silent := log.New(io.Discard, "", 0)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		Transport:     transport,
		FlushInterval: -1, // of watches each event counts
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      silent,
	}
	p := &APIServer{count: map[string]int{}}
	// The certificate of httptest is valid for decades: its clients' clocks are wrong at times.
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		a := choose(r.Method, p.share, rand.Float64(), rand.Float64())
		p.count[a.name]++
		p.mu.Unlock()
		a.serve(forward, w, r)
	}))
	p.server.EnableHTTP2 = true
	p.server.Config.ReadHeaderTimeout, p.server.Config.ErrorLog = time.Minute, silent
	p.server.StartTLS()
	p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return p, nil
}

// Host is what its clients have as server.
func (p *APIServer) Host() string { return p.server.URL }

// Fail fails that share of the requests from now on.
func (p *APIServer) Fail(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share = share
}

// Count returns how many requests got each answer; "passed" are those that did not fail.
func (p *APIServer) Count() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.count)
}

// Close ends it and all connections.
func (p *APIServer) Close() error { return p.server.Config.Close() }

// refuse answers as the API server does.
func refuse(err *apierrors.StatusError) func(http.Handler, http.ResponseWriter, *http.Request) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
		if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status) // the client may have gone
	}
}
