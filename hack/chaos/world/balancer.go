package world

import (
	"context"
	"sync"
	"time"

	"github.com/servingcert/servingcert/hack/chaos/fault"
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
	connections *fault.TCP
	replicas    []backend
	cancel      context.CancelFunc
	looking     sync.Mutex // what was seen last counts

	mu    sync.Mutex
	ready []backend
	next  int
}

func newBalancer(ctx context.Context, address string, replicas []backend) (*balancer, error) {
	b := &balancer{replicas: replicas}
	var err error
	if b.connections, err = fault.Forward(address, b.pick); err != nil {
		return nil, err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	b.look(ctx)
	go func() {
		for process.Sleep(background, look) {
			b.look(background)
		}
	}()
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
	_ = b.connections.Close()
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
