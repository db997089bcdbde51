package port

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/flood"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// serving is a served port, with httptest's certificate.
type serving struct {
	cfg     Config
	address string
	server  *Server
	client  *http.Client
}

// serve serves a port with the handler until the test ends.
func serve(t *testing.T, secure bool, handler http.HandlerFunc, changes ...func(*Server)) *serving {
	t.Helper()
	s := &serving{cfg: Config{
		Name: "tests", Handler: handler, MaxConnections: 32, WriteTimeout: harness.Soon,
		Evicted: prometheus.NewCounter(prometheus.CounterOpts{Name: "evicted"}), Log: logr.Discard(),
	}}
	if secure {
		s.cfg.TLS = certificate(t)
	}
	s.server = New(s.cfg)
	for _, change := range changes {
		change(s.server)
	}
	listener, err := s.server.Listen("127.0.0.1:0")
	require.NoError(t, err)
	s.address = listener.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.server.HTTP.Serve(listener) }()
	t.Cleanup(func() {
		_ = s.server.HTTP.Close()
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	s.client = s.from("127.0.0.1")
	return s
}

// patient lets a request that has to arrive take minutes.
func patient(s *Server) { s.HTTP.ReadHeaderTimeout, s.HTTP.ReadTimeout = harness.Soon, harness.Soon }

func certificate(t *testing.T) *tls.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	t.Cleanup(s.Close)
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}
}

// from returns a client with this address.
func (s *serving) from(peer string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(peer)}}
	return &http.Client{Transport: &http.Transport{
		DialContext:     dialer.DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // any certificate is accepted
	}, Timeout: harness.Soon}
}

// get makes a request, and reports whether it reused a connection.
func (s *serving) get(client *http.Client) (kept bool, err error) {
	scheme := "http"
	if s.cfg.TLS != nil {
		scheme = "https"
	}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { kept = info.Reused }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), http.MethodGet, scheme+"://"+s.address+"/metrics", http.NoBody)
	if err != nil {
		return false, err
	}
	response, err := client.Do(req)
	if err != nil {
		return false, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return kept, response.Body.Close()
}

// flood runs until the test ends, and returns once it has opened all of its connections.
func (s *serving) flood(t *testing.T, connections, peers int, sends string) *flood.Flood {
	t.Helper()
	f := &flood.Flood{Target: s.address, TLS: s.cfg.TLS != nil, Connections: connections, Peers: peers, Sends: sends, Pause: time.Second}
	var running sync.WaitGroup
	running.Go(func() { f.Run(t.Context()) })
	t.Cleanup(running.Wait)
	harness.Eventually(t, func() error {
		if f.Opened() < connections {
			return fmt.Errorf("%d of %d connections were made", f.Opened(), connections)
		}
		return nil
	})
	return f
}

func answer(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// slowBody announces a body that never arrives.
const slowBody = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"

// During floods from one or many addresses, new clients are served, clients that were served before keep
// their connections, and the number of connections is limited.
func TestFloods(t *testing.T) {
	const connections = 64 // twice the maximum
	for _, secure := range []bool{false, true} {
		for what, sends := range map[string]string{
			"silent": flood.Nothing, "headers": flood.Header(1 << 20), "idle": flood.Request, "body": slowBody,
		} {
			for _, peers := range []int{0, connections} {
				if secure && peers == 0 {
					continue // tested without TLS
				}
				t.Run(fmt.Sprintf("%s, TLS %t, peers %d", what, secure, peers), func(t *testing.T) {
					s := serve(t, secure, func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						answer(w, r)
					})
					regular := s.from("127.0.0.1")
					for range 2 { // a response may come before the server has finished the first request
						_, err := s.get(regular)
						require.NoError(t, err)
					}
					f := s.flood(t, connections, peers, sends)
					if what != "headers" { // these are closed at once
						harness.Eventually(t, func() error { // connections are opened before the server accepts them
							if testutil.ToFloat64(s.cfg.Evicted.(prometheus.Counter)) == 0 {
								return errors.New("no connection was closed for another")
							}
							return nil
						})
					}
					for range 3 {
						for _, newcomer := range []string{"127.0.0.1", "127.0.0.9"} { // the first is that of a flood from one
							harness.Eventually(t, func() error {
								_, err := s.get(s.from(newcomer))
								return err
							})
						}
						if what == "idle" {
							continue // these were served too
						}
						kept, err := s.get(regular)
						assert.NoError(t, err)
						assert.True(t, kept, "connections of served clients are kept")
					}
					harness.Eventually(t, func() error { // clients notice with a delay
						if held := f.Held(); held > s.cfg.MaxConnections {
							return fmt.Errorf("%d connections are open", held)
						}
						return nil
					})
				})
			}
		}
	}
}

// Closing a connection cancels its request, also if the body was not read, so that the server soon
// finishes it.
func TestClosingAConnectionCancelsItsRequest(t *testing.T) {
	var waiting atomic.Int32
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			answer(w, r)
			return
		}
		waiting.Add(1)
		defer waiting.Add(-1)
		<-r.Context().Done() // as while waiting for the API server
	})
	s.flood(t, 200, 0, slowBody)
	for range 10 {
		harness.Eventually(t, func() error {
			_, err := s.get(s.from("127.0.0.1"))
			return err
		})
	}
	require.Eventually(t, func() bool { return int(waiting.Load()) <= s.cfg.MaxConnections }, harness.Soon, harness.Tick)
}

// The number of evicted connections that are still being served is limited too. Close ends the wait.
func TestAcceptWaitsForEvictedConnections(t *testing.T) {
	var handling atomic.Int32
	release := make(chan struct{})
	s := serve(t, false, func(http.ResponseWriter, *http.Request) {
		handling.Add(1)
		<-release // ignores the context
	})
	for range 200 {
		conn, err := net.Dial("tcp", s.address) // at worst, it waits in the kernel
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, flood.Request)
		require.NoError(t, err)
	}
	most := int32(s.cfg.MaxConnections + s.cfg.MaxConnections/maxEnding + 1)
	require.Eventually(t, func() bool { return handling.Load() >= most-1 }, harness.Soon, harness.Tick)
	assert.LessOrEqual(t, handling.Load(), most)
	close(release)
	harness.Eventually(t, func() error {
		_, err := s.get(s.from("127.0.0.1"))
		return err
	})
}

// leftBody announces a body that net/http would not read to its end.
const leftBody = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"

// If a body is not read, the whole response is sent, and then the connection is closed.
func TestBodiesThatAreNotRead(t *testing.T) {
	for _, length := range []int{0, 10, 100_000} {
		s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
			assert.NotEqual(t, http.NoBody, r.Body, "handlers get the body")
			if length > 0 {
				_, _ = io.WriteString(w, strings.Repeat("x", length))
			}
		})
		conn, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		_, err = io.WriteString(conn, leftBody)
		require.NoError(t, err)
		received, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.NoError(t, conn.Close())
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(received)), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		assert.True(t, resp.Close)
		assert.Len(t, text, length)
	}
}

// If a body is read, the connection is kept, also if the response is longer than net/http's buffers.
func TestBodiesThatAreReadKeepTheConnection(t *testing.T) {
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, _ = w.Write(body)
	}, patient)
	for i := range 3 {
		var kept bool
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { kept = info.Reused }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "http://"+s.address, strings.NewReader(strings.Repeat("x", 10_000)))
		require.NoError(t, err)
		resp, err := s.client.Do(req)
		require.NoError(t, err)
		echo, err := io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		assert.Len(t, echo, 10_000)
		assert.Equal(t, i > 0, kept)
	}
}

// Unread bodies do not delay others: net/http would keep each of these connections for half a second, and
// Accept would wait for two minutes.
func TestUnreadBodiesDoNotDelayOthers(t *testing.T) {
	s := serve(t, false, answer)
	s.flood(t, 5000, 0, leftBody)
	harness.Eventually(t, func() error {
		_, err := s.get(s.from("127.0.0.1"))
		return err
	})
}

// The number of bytes before the first request is limited, also in a handshake: crypto/tls accepts client
// certificates of 256 KiB.
func TestBytesBeforeTheFirstRequestAreLimited(t *testing.T) {
	s := serve(t, true, answer, func(s *Server) { s.cfg.TLS.ClientAuth = tls.RequestClientCert })
	pair := s.cfg.TLS.Certificates[0]
	call := func(certificates int) error {
		chain := pair
		for len(chain.Certificate) < certificates {
			chain.Certificate = append(chain.Certificate, pair.Certificate[0])
		}
		client := s.from("127.0.0.1")
		client.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &chain, nil }
		_, err := s.get(client)
		return err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	require.NoError(t, call(4), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}))
	assert.Error(t, call(3*maxHeaders/len(leaf.Raw)))
}

// With OneRequest, no connection is kept.
func TestOneRequest(t *testing.T) {
	s := serve(t, false, answer, func(s *Server) { s.HTTP.SetKeepAlivesEnabled(false) })
	for range 3 {
		kept, err := s.get(s.client)
		require.NoError(t, err)
		assert.False(t, kept)
	}
}

// The limit only counts bytes before the headers are complete, although one read may return headers and a
// large part of a body.
func TestLargeBodiesOnAKeptConnection(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := serve(t, secure, func(w http.ResponseWriter, r *http.Request) {
			if n, err := io.Copy(io.Discard, r.Body); err != nil || n != 1<<20 {
				w.WriteHeader(http.StatusBadRequest)
			}
		}, patient)
		scheme := "http://"
		if secure {
			scheme = "https://"
		}
		for range 100 {
			response, err := s.client.Post(scheme+s.address, "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
			require.NoError(t, err)
			assert.Equal(t, http.StatusOK, response.StatusCode)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, errors.Join(err, response.Body.Close()))
		}
	}
}

// The server closes connections on which a handshake, headers or a body arrive slowly, and logs nothing.
func TestASlowSenderIsCutOff(t *testing.T) {
	const patience = 3 * time.Second // sending takes long on a busy machine
	for _, secure := range []bool{false, true} {
		var lines atomic.Int32
		s := serve(t, secure, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				http.Error(w, "cut off", http.StatusBadRequest)
			}
		}, func(s *Server) {
			s.cfg.Log = funcr.New(func(_, line string) { lines.Add(1); t.Log(line) }, funcr.Options{})
			*s = *New(s.cfg)
			s.HTTP.ReadHeaderTimeout, s.HTTP.ReadTimeout = patience, patience+time.Second
		})
		var slow sync.WaitGroup
		for name, sends := range map[string]string{
			"nothing": flood.Nothing,
			"headers": "POST / HTTP/1.1\r\nHost: x\r\n",
			"body":    slowBody + "{",
			"long":    flood.Header(2 * maxHeaders),
		} {
			slow.Go(func() {
				begun := time.Now()
				conn, err := net.Dial("tcp", s.address)
				if !assert.NoError(t, err, name) {
					return
				}
				if secure && sends != flood.Nothing {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // any certificate is accepted
				}
				_, err = io.WriteString(conn, sends)
				// Writing may fail, as the server may close the connection meanwhile.
				if name != "long" && time.Since(begun) < patience {
					assert.NoError(t, err, name)
				}
				answer, _ := io.ReadAll(conn) // returns once the server closes the connection
				assert.NotContains(t, string(answer), "200 OK", name)
				_ = conn.Close()
			})
		}
		slow.Wait()
		assert.Zero(t, lines.Load(), "connections are not logged")
	}
}

func TestTheServerHasEveryTimeout(t *testing.T) {
	s := New(Config{WriteTimeout: time.Second, Log: logr.Discard()}).HTTP
	for name, timeout := range map[string]time.Duration{
		"header": s.ReadHeaderTimeout, "read": s.ReadTimeout, "write": s.WriteTimeout, "idle": s.IdleTimeout,
	} {
		assert.Positive(t, timeout, name)
		assert.LessOrEqual(t, timeout, idleTimeout, name)
	}
	assert.Positive(t, s.MaxHeaderBytes)
}
