package fault

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// burst is how much a connection carries at once.
const burst = 32 << 10

// TCP carries connections to another address, at once or slowly.
type TCP struct {
	listener net.Listener
	target   func() string
	delay    atomic.Pointer[delay]

	mu    sync.Mutex
	conns map[net.Conn]bool
}

type delay struct{ least, most time.Duration }

// NewTCP listens on loopback and carries what it accepts to the target, host:port.
func NewTCP(target string) (*TCP, error) {
	return Forward("127.0.0.1:0", func() string { return target })
}

// Forward listens at an address and carries each connection to the target of its moment. Without
// one, "", the connection is closed.
func Forward(address string, target func() string) (*TCP, error) {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return nil, err
	}
	p := &TCP{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.SetDelay(0, 0)
	go p.accept()
	return p, nil
}

// Address is where it listens, host:port.
func (p *TCP) Address() string { return p.listener.Addr().String() }

// SetDelay holds each burst that a client sends for a time between the two. Nothing that
// follows on the same connection overtakes it.
func (p *TCP) SetDelay(least, most time.Duration) { p.delay.Store(&delay{least, most}) }

// Close ends it and all connections.
func (p *TCP) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	return err
}

func (p *TCP) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // it is closed
		}
		go p.carry(client)
	}
}

func (p *TCP) carry(client net.Conn) {
	defer p.forget(client)
	p.remember(client)
	target := p.target()
	if target == "" {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	p.remember(server)
	go func() {
		defer p.forget(server)
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	p.send(server, client)
	_ = server.Close()
}

// send carries what the client sends.
func (p *TCP) send(server io.Writer, client io.Reader) {
	buffer := make([]byte, burst)
	for {
		n, err := client.Read(buffer)
		if d := p.delay.Load(); n > 0 && d.most > 0 {
			time.Sleep(d.least + rand.N(d.most-d.least+1))
		}
		if _, writeErr := server.Write(buffer[:n]); writeErr != nil || err != nil {
			return
		}
	}
}

func (p *TCP) remember(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

func (p *TCP) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
