package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// balancer plays the webhook's Service: it listens on the ClusterIP, and carries each new
// connection to the next replica that is ready. As kube-proxy does, it knows that from
// readiness only, a moment late, and leaves connections alone that exist. A replica that
// ends is found out by nothing else.
type balancer struct {
	certs string // what the replicas mount

	mu        sync.Mutex
	endpoints []*endpoint
	next      int
}

// endpoint is a replica.
type endpoint struct {
	address string
	open    atomic.Int64              // connections
	asked   atomic.Pointer[time.Time] // when it was last asked, of the times that it was ready
}

// late is how long a balancer knows nothing of a replica that is not ready any more. What it knew
// for stale, because it stood still, it must learn anew: stale is shorter than a replica drains.
const (
	late  = 200 * time.Millisecond
	stale = 2 * time.Second
)

// isKnown reports whether the replica was ready a moment ago.
func (e *endpoint) isKnown() bool { return time.Since(*e.asked.Load()) < stale }

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	var service corev1.Service
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-webhook"}, &service))
	listener, err := net.Listen("tcp", net.JoinHostPort(service.Spec.ClusterIP, "9443"))
	require.NoError(t, err)
	b := &balancer{certs: t.TempDir()}
	harness.MountWebhook(t, admin, b.certs)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go b.carry(conn)
		}
	}()
	return b
}

// replica runs a webhook of the programs in the directory, and returns once it is ready.
func (b *balancer) replica(t *testing.T, from string, flags ...string) *program {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	p := startFrom(t, from, "webhook", true, append(flags, "--cert-dir="+b.certs, "--bind-address=127.0.0.1", "--port="+port)...)
	e := &endpoint{address: address}
	e.asked.Store(&time.Time{})
	p.endpoint = e
	isReady := func() bool {
		now := time.Now()
		if p.Ready(context.Background()) != nil {
			return false
		}
		e.asked.Store(&now)
		return true
	}
	b.mu.Lock()
	b.endpoints = append(b.endpoints, e)
	b.mu.Unlock()
	go func() {
		for isReady() {
			select {
			case <-time.After(late):
			case <-p.Ended():
			}
		}
		b.remove(e)
	}()
	return p
}

// remove has no new connection go to the replica.
func (b *balancer) remove(e *endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endpoints = slices.DeleteFunc(b.endpoints, func(other *endpoint) bool { return other == e })
}

// pick returns the endpoint whose turn it is of those that are known, nil if there is none at all.
func (b *balancer) pick() *endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.endpoints) > 0 {
		for range b.endpoints {
			b.next++
			if e := b.endpoints[b.next%len(b.endpoints)]; e.isKnown() {
				return e
			}
		}
		b.mu.Unlock()
		time.Sleep(harness.Tick)
		b.mu.Lock()
	}
	return nil
}

// carry is one connection. Who cannot be reached refuses it, unless it is not known any more.
func (b *balancer) carry(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var replica net.Conn
	e := b.pick()
	for ; e != nil; e = b.pick() {
		var err error
		if replica, err = net.Dial("tcp", e.address); err == nil {
			break
		}
		if e.isKnown() {
			return
		}
	}
	if e == nil {
		return
	}
	defer func() { _ = replica.Close() }()
	e.open.Add(1)
	defer e.open.Add(-1)
	go func() {
		_, _ = io.Copy(replica, conn)
		_ = replica.Close()
	}()
	_, _ = io.Copy(conn, replica)
}

// stream creates pods of a Service, several at a time, until it is stopped. They are
// dry runs: the API server asks the webhook as ever, and keeps nothing.
type stream struct {
	gate     sync.RWMutex // held to write: no pod is created
	stopped  chan struct{}
	done     sync.WaitGroup
	admitted atomic.Int64
	refused  atomic.Int64
	bare     atomic.Int64
	said     atomic.Pointer[string] // by the last refusal
}

func newStream(t *testing.T, service *corev1.Service, atATime int) *stream {
	t.Helper()
	s := &stream{stopped: make(chan struct{})}
	for range atATime {
		s.done.Go(func() {
			for {
				select {
				case <-s.stopped:
					return
				case <-time.After(20 * time.Millisecond):
				}
				s.one(t, service)
			}
		})
	}
	t.Cleanup(s.stop)
	return s
}

func (s *stream) one(t *testing.T, service *corev1.Service) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	pod, err := newPod(t, service, client.DryRunAll)
	switch {
	case t.Context().Err() != nil:
	case err != nil:
		text := err.Error()
		s.said.Store(&text)
		s.refused.Add(1)
	case pod.Labels[api.LabelInjected] != "true":
		s.bare.Add(1)
	default:
		s.admitted.Add(1)
	}
}

func (s *stream) stop() {
	select {
	case <-s.stopped:
	default:
		close(s.stopped)
	}
	s.done.Wait()
}

// meanwhile waits until some more pods were tried.
func (s *stream) meanwhile(t *testing.T) {
	t.Helper()
	tried := func() int64 { return s.admitted.Load() + s.refused.Load() + s.bare.Load() }
	before := tried()
	harness.Eventually(t, func() error {
		if got := tried(); got < before+10 {
			return fmt.Errorf("%d pods were tried", got-before)
		}
		return nil
	})
}

// areBare waits until the API server asks no webhook, for those pods neither that it has begun with.
func (s *stream) areBare(t *testing.T) {
	t.Helper()
	before := s.bare.Load()
	harness.Eventually(t, func() error {
		s.gate.Lock() // which each pod that is being created holds
		defer s.gate.Unlock()
		if s.bare.Load() == before {
			return errors.New("no pod was admitted without a certificate")
		}
		return nil
	})
}

// all ends the creation of pods: each must have been admitted, with its certificate.
func (s *stream) all(t *testing.T) {
	t.Helper()
	s.meanwhile(t)
	s.stop()
	if said := s.said.Load(); said != nil {
		assert.Fail(t, "pods were refused", "%d, the last one: %s", s.refused.Load(), *said)
	}
	assert.Zero(t, s.bare.Load(), "pods without a certificate")
	t.Logf("%d pods admitted, %d refused, %d without a certificate", s.admitted.Load(), s.refused.Load(), s.bare.Load())
}
