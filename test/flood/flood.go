// Package flood makes the connections that anybody can who reaches a port, for tests and
// for make hostile.
package flood

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What a connection may send before it falls silent.
const (
	// Nothing is sent. With TLS, the handshake is done.
	Nothing = ""
	// Request is refused, or answered, wherever it arrives.
	Request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
)

// Header begins a request with a header of so many bytes that does not end.
func Header(size int) string {
	return "GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", size)
}

// dialTimeout bounds the TLS handshake too.
const dialTimeout = 10 * time.Second

// Flood is a number of connections to a port of loopback that are held open. One that the
// server closes is made again after the pause.
type Flood struct {
	Target      string // HOST:PORT
	TLS         bool
	Connections int
	// Peers is how many addresses of 127.77.0.0/16 they come from, at most 65 000; 0 for
	// the address that the kernel chooses.
	Peers int
	Sends string
	Pause time.Duration

	opened, held atomic.Int64
}

// Peer is an address of 127.77.0.0/16, of which there are 65 000 from 0 on.
func Peer(i int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 77, byte((i+1)>>8), byte(i+1))} }

// Opened is how many connections were made, with their handshakes, since the beginning.
func (f *Flood) Opened() int { return int(f.opened.Load()) }

// Held is how many are open now.
func (f *Flood) Held() int { return int(f.held.Load()) }

// Run floods until ctx ends, and returns when all connections are closed.
func (f *Flood) Run(ctx context.Context) {
	var running sync.WaitGroup
	sends := []byte(f.Sends) // once for all
	for i := range f.Connections {
		running.Go(func() {
			for ctx.Err() == nil {
				f.one(ctx, i, sends)
				select {
				case <-ctx.Done():
				case <-time.After(f.Pause):
				}
			}
		})
	}
	running.Wait()
}

// one makes a connection and holds it until the server closes it, or ctx ends.
func (f *Flood) one(ctx context.Context, i int, sends []byte) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if f.Peers > 0 {
		dialer.LocalAddr = Peer(i % f.Peers)
	}
	raw, err := dialer.DialContext(ctx, "tcp", f.Target)
	if err != nil {
		return
	}
	defer func() { _ = raw.Close() }()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	conn := raw
	if f.TLS {
		client := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it attacks
		_ = raw.SetDeadline(time.Now().Add(dialTimeout))
		if client.HandshakeContext(ctx) != nil {
			return
		}
		_ = raw.SetDeadline(time.Time{})
		conn = client
	}
	f.opened.Add(1)
	f.held.Add(1)
	defer f.held.Add(-1)
	sent := make(chan struct{})
	go func() { // the server may stop to read
		defer close(sent)
		_, _ = conn.Write(sends)
	}()
	_, _ = io.Copy(io.Discard, conn)
	_ = raw.Close()
	<-sent
}
