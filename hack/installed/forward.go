package installed

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// Forwarder carries connections to another address, at once or slowly.
type Forwarder struct {
	listener net.Listener
	target   func() string
	delay    atomic.Pointer[delay]
	over     context.Context
	end      context.CancelFunc
}

type delay struct{ least, most time.Duration }

// Forward listens at an address and carries each connection to the target of its moment, host:port.
// Without one, "", the connection is closed.
func Forward(address string, target func() string) (*Forwarder, error) {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return nil, err
	}
	f := &Forwarder{listener: l, target: target}
	f.over, f.end = context.WithCancel(context.Background())
	f.SetDelay(0, 0)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			go f.carry(client)
		}
	}()
	return f, nil
}

// Address is where it listens, host:port.
func (f *Forwarder) Address() string { return f.listener.Addr().String() }

// SetDelay holds each burst that a client sends, of at most 32 KiB, for a time between the two.
// Nothing that follows on the same connection overtakes it.
func (f *Forwarder) SetDelay(least, most time.Duration) { f.delay.Store(&delay{least, most}) }

// Close ends it and all connections.
func (f *Forwarder) Close() error {
	f.end()
	return f.listener.Close()
}

func (f *Forwarder) carry(client net.Conn) {
	defer f.closing(client)()
	target := f.target()
	if target == "" {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer f.closing(server)()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := client.Read(buffer)
		if d := f.delay.Load(); n > 0 && d.most > 0 {
			time.Sleep(d.least + rand.N(d.most-d.least+1))
		}
		if _, writeErr := server.Write(buffer[:n]); writeErr != nil || err != nil {
			return
		}
	}
}

// closing returns what closes a connection, and has Close close it.
func (f *Forwarder) closing(c net.Conn) func() {
	forget := context.AfterFunc(f.over, func() { _ = c.Close() })
	return func() { forget(); _ = c.Close() }
}
