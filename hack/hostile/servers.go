package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// server is what runs in a pod: it listens at an address of loopback and serves the
// certificate that it has at the moment.
type server struct {
	address  string // without the port
	pair     atomic.Pointer[tls.Certificate]
	listener net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// address returns the n-th of 127.SECOND.0.0/16.
func address(second byte, n int) string {
	n++
	return netip.AddrFrom4([4]byte{127, second, byte(n >> 8), byte(n)}).String()
}

// listen starts a server. Without a pair it accepts, and never answers.
func listen(ctx context.Context, at string, port int, pair *tls.Certificate) (*server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(at, fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	s := &server{address: at, listener: l, conns: map[net.Conn]bool{}}
	s.pair.Store(pair)
	go s.accept()
	return s, nil
}

func (s *server) accept() {
	cfg := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil }}
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		go func() {
			defer s.forget(conn)
			if s.pair.Load() == nil {
				_, _ = io.Copy(io.Discard, conn) // until the client gives up
				return
			}
			if c := tls.Server(conn, cfg); c.Handshake() == nil {
				_, _ = c.Read(make([]byte, 1))
			}
		}()
	}
}

func (s *server) forget(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// close ends the server and its connections.
func (s *server) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

// pairOf reads the certificate and key that a pod would mount.
func (t *tenant) pairOf(ctx context.Context, secret string) (*tls.Certificate, error) {
	s, err := t.secrets().Get(ctx, secret, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, errors.New("Secret " + secret + " holds no certificate and its key")
	}
	return &pair, nil
}
