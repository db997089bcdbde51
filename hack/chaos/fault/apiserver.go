package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// silence is how long a request waits for an answer that does not come.
const silence = 4 * time.Second

// APIServer is a proxy before the API server that can fail a share of the requests. Clients
// authenticate with tokens, which it hands on.
type APIServer struct {
	// CA is what its clients have to trust, in PEM.
	CA []byte

	server *httptest.Server
	share  atomic.Pointer[float64]
	count  [answers]atomic.Int64
}

// NewAPIServer listens on loopback in front of the API server at host, https://host:port,
// whose CA is given in PEM.
func NewAPIServer(host string, ca []byte) (*APIServer, error) {
	target, err := url.Parse(host)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the API server's CA: no certificate")
	}
	p := &APIServer{}
	p.SetShare(0)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 50},
		FlushInterval: -1, // of watches each event counts
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	// The certificate of httptest is valid for decades: its clients' clocks are wrong at times.
	p.server = httptest.NewUnstartedServer(p.handler(forward))
	p.server.EnableHTTP2 = true
	p.server.Config.ReadHeaderTimeout, p.server.Config.ErrorLog = time.Minute, log.New(io.Discard, "", 0)
	p.server.StartTLS()
	p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return p, nil
}

// Host is what its clients have as server.
func (p *APIServer) Host() string { return p.server.URL }

// SetShare fails that share of the requests from now on.
func (p *APIServer) SetShare(share float64) { p.share.Store(&share) }

// Count returns how many requests there were of each kind of answer.
func (p *APIServer) Count() map[string]int64 {
	out := map[string]int64{}
	for a := range answers {
		out[a.String()] = p.count[a].Load()
	}
	return out
}

// Close ends it and all connections.
func (p *APIServer) Close() error { return p.server.Config.Close() }

func (p *APIServer) handler(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := Choose(r.Method, *p.share.Load(), rand.Float64(), rand.Float64())
		p.count[answer].Add(1)
		something := schema.GroupResource{Resource: "objects"}
		switch answer {
		case Pass:
			forward.ServeHTTP(w, r)
		case Busy:
			w.Header().Set("Retry-After", "1")
			refuse(w, apierrors.NewTooManyRequests("too many requests, please try again later", 1).Status())
		case Conflict:
			refuse(w, apierrors.NewConflict(something, "x", errors.New("somebody else wrote it")).Status())
		case Broken:
			refuse(w, apierrors.NewInternalError(errors.New("broken on purpose")).Status())
		case Silent:
			wait(r.Context(), silence)
			panic(http.ErrAbortHandler)
		case Unheard:
			forward.ServeHTTP(discard{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		default:
			panic(http.ErrAbortHandler)
		}
	})
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// refuse answers as the API server does.
func refuse(w http.ResponseWriter, status metav1.Status) {
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client may have gone
}

// discard is an answer that nobody hears.
type discard struct{ header http.Header }

func (d discard) Header() http.Header          { return d.header }
func (discard) Write(data []byte) (int, error) { return len(data), nil }
func (discard) WriteHeader(int)                {}
