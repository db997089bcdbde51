package world

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// look is how often a kubelet looks whether its containers run.
const look = time.Second

// balancer plays the webhook's Service: it listens on the ClusterIP, and carries each new
// connection to the next replica that was ready when it last looked. As kube-proxy does, it
// does not try another one if that refuses.
type balancer struct {
	listener net.Listener
	replicas []*Process
	cancel   context.CancelFunc

	mu    sync.Mutex
	ready []*Process
	next  int
}

func newBalancer(ctx context.Context, address string, replicas []*Process) (*balancer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	b := &balancer{listener: l, replicas: replicas}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	b.look(ctx)
	go func() {
		for sleep(background, look) {
			b.look(background)
		}
	}()
	go b.accept()
	return b, nil
}

func (b *balancer) look(ctx context.Context) {
	var ready []*Process
	for _, p := range b.replicas {
		if p.Ready(ctx) == nil {
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

// pick returns whose turn it is, nil if nobody is ready.
func (b *balancer) pick() *Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return nil
	}
	b.next++
	return b.ready[b.next%len(b.ready)]
}

func (b *balancer) carry(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	p := b.pick()
	if p == nil {
		return
	}
	replica, err := net.Dial("tcp", p.address)
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

// sleep reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
