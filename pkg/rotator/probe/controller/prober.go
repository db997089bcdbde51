// Package controller dials pods, many at a time, and reports their answers. What
// an answer means is decided in package probe.
package controller

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
)

// Prober dials pods, a bounded number at a time, in the order in which it was
// asked to. A pod that waits to be dialled is not dialled twice.
type Prober struct {
	cfg    Config
	now    func() time.Time
	bundle func(context.Context) pki.Bundle
	// ready waits until the bundle is known.
	ready func(context.Context) bool
	// done is called with what a pod answered.
	done    func(probe.Visit, []probe.Answer)
	results *prometheus.CounterVec // by result

	queue workqueue.TypedInterface[probe.Key]
	mu    sync.Mutex
	asked map[probe.Key]probe.Visit
}

// Setup adds the prober to mgr. done is called with what a pod answered.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, done func(probe.Visit, []probe.Answer)) (*Prober, error) {
	known, err := addBundle(c)
	if err != nil {
		return nil, err
	}
	p := newProber(cfg, c.Now, known.get, done)
	p.ready = known.reader.WaitForCacheSync
	if err := c.Metrics.Register(p.results); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if err := mgr.Add(p); err != nil {
		return nil, fmt.Errorf("add the prober: %w", err)
	}
	return p, nil
}

func newProber(cfg Config, now func() time.Time, bundle func(context.Context) pki.Bundle, done func(probe.Visit, []probe.Answer)) *Prober {
	return &Prober{
		cfg: cfg, now: now, bundle: bundle, done: done, ready: func(context.Context) bool { return true },
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_probes_total",
			Help: "Ports of pods dialled to see which certificate they serve, by result: tls, plaintext, refused, timeout, reset, closed, alert or other.",
		}, []string{"result"}),
		queue: workqueue.NewTyped[probe.Key](),
		asked: map[probe.Key]probe.Visit{},
	}
}

// Ask has the pod dialled, unless it is about to be.
func (p *Prober) Ask(v probe.Visit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waits := p.asked[v.Key]; !waits {
		p.asked[v.Key] = v
		p.queue.Add(v.Key)
	}
}

// Start dials until ctx ends. It runs on the leader.
func (p *Prober) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	if p.ready(ctx) {
		for range p.cfg.Concurrency {
			workers.Go(func() {
				for p.work(ctx) {
				}
			})
		}
	}
	<-ctx.Done()
	p.queue.ShutDown()
	workers.Wait()
	return nil
}

func (p *Prober) work(ctx context.Context) bool {
	key, over := p.queue.Get()
	if over || ctx.Err() != nil {
		return false
	}
	defer p.queue.Done(key)
	p.mu.Lock()
	v := p.asked[key]
	p.mu.Unlock()
	answers := p.visit(ctx, v)
	p.mu.Lock()
	delete(p.asked, key)
	p.mu.Unlock()
	if ctx.Err() == nil { // else what failed is this process
		p.done(v, answers)
	}
	return true
}

// visit dials one port after the other, and ends with the first that gives no answer
// in time, or when the time limit of one port is over for all of them together. It takes
// at most twice that limit. Ports that it does not come to have no answer.
func (p *Prober) visit(ctx context.Context, v probe.Visit) []probe.Answer {
	answers := make([]probe.Answer, 0, len(v.Ports))
	begun := p.now()
	for _, port := range v.Ports {
		at := p.now()
		outcome := dial.Dial(ctx, netip.AddrPortFrom(v.Address, port).String(), v.Name, p.cfg.Timeout)
		p.results.WithLabelValues(outcome.Label()).Inc()
		answer := v.Answer(port, at, outcome, p.bundle(ctx))
		answer.Slow = outcome.Cause == probe.CauseTimeout || p.now().Sub(begun) >= p.cfg.Timeout
		if answers = append(answers, answer); answer.Slow {
			break
		}
	}
	return answers
}
