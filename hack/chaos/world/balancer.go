package world

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

// look is how often a kubelet looks whether its containers run.
const look = time.Second

// backend is a replica, and whether it is ready.
type backend struct {
	address string // HOST:PORT
	ready   func(context.Context) error
}

// balancer plays the webhook's Service: it listens on the ClusterIP, and carries each new
// connection to the next replica that was ready when it last looked. As kube-proxy does, it
// does not try another one if that refuses.
type balancer struct {
	listener net.Listener
	replicas []backend
	cancel   context.CancelFunc
	looking  sync.Mutex // what was seen last counts

	mu    sync.Mutex
	ready []backend
	next  int
}

func newBalancer(ctx context.Context, address string, replicas []backend) (*balancer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	b := &balancer{listener: l, replicas: replicas}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	b.look(ctx)
	go func() {
		for process.Sleep(background, look) {
			b.look(background)
		}
	}()
	go b.accept()
	return b, nil
}

func (b *balancer) look(ctx context.Context) {
	b.looking.Lock()
	defer b.looking.Unlock()
	var ready []backend
	for _, p := range b.replicas {
		if p.ready(ctx) == nil {
			ready = append(ready, p)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = ready
}

func (b *balancer) close() {
	b.cancel()
	_ = b.listener.Close()
}

func (b *balancer) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return // it is closed
		}
		go b.carry(conn)
	}
}

// pick returns the address of whose turn it is, "" if nobody is ready.
func (b *balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return ""
	}
	b.next++
	return b.ready[b.next%len(b.ready)].address
}

func (b *balancer) carry(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	address := b.pick()
	if address == "" {
		return
	}
	replica, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(replica, conn)
		_ = replica.Close()
	}()
	_, _ = io.Copy(conn, replica)
	_ = replica.Close()
}
