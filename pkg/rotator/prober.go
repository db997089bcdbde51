package rotator

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/servingcert/servingcert/pkg/pki"
)

// visit is a pod that is to be dialled for a Secret.
type visit struct {
	visitKey
	address netip.Addr
	ports   []uint16
	name    string      // to ask for (SNI)
	names   []string    // that a leaf of the Secret has one of
	cert    certificate // as it was when the visit was asked for
}

type visitKey struct {
	secret types.NamespacedName
	pod    types.UID
}

// prober dials pods, a bounded number at a time, in the order in which they were
// asked for. A pod that waits to be dialled is not asked for twice.
type prober struct {
	concurrency int
	timeout     time.Duration
	now         func() time.Time
	bundle      func() pki.Bundle
	// done is called with what a pod answered.
	done    func(visitKey, []answer)
	results *prometheus.CounterVec // by result

	queue workqueue.TypedInterface[visitKey]
	mu    sync.Mutex
	asked map[visitKey]visit
}

func newProber(cfg Config, bundle func() pki.Bundle, done func(visitKey, []answer)) *prober {
	return &prober{
		concurrency: cfg.ProbeConcurrency, timeout: cfg.ProbeTimeout, now: cfg.Now, bundle: bundle, done: done,
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_probes_total",
			Help: "Ports of pods dialled to see which certificate they serve, by result: tls, plaintext, refused, timeout, reset, closed, alert or other.",
		}, []string{"result"}),
		queue: workqueue.NewTyped[visitKey](),
		asked: map[visitKey]visit{},
	}
}

// ask has the pod dialled, unless it is about to be.
func (p *prober) ask(v visit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waits := p.asked[v.visitKey]; !waits {
		p.asked[v.visitKey] = v
		p.queue.Add(v.visitKey)
	}
}

// Start dials until ctx ends. It runs on the leader.
func (p *prober) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for range p.concurrency {
		workers.Go(func() {
			for p.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	workers.Wait()
	return nil
}

func (p *prober) work(ctx context.Context) bool {
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
		p.done(key, answers)
	}
	return true
}

// visit dials one port after the other.
func (p *prober) visit(ctx context.Context, v visit) []answer {
	answers := make([]answer, 0, len(v.ports))
	for _, port := range v.ports {
		a := answer{port: port, at: p.now()}
		s := probe(ctx, netip.AddrPortFrom(v.address, port), v.name, p.timeout)
		a.kind = s.kind
		result := string(s.kind)
		switch s.kind {
		case answeredTLS:
			leaf := s.chain[0]
			a.leaf, a.notBefore, a.notAfter = pki.Fingerprint(leaf), leaf.NotBefore, leaf.NotAfter
			a.ours = v.cert.knows(a.leaf) || recognise(leaf, s.chain[1:], p.bundle(), v.names)
		case answeredNothing:
			result = string(s.why)
		}
		p.results.WithLabelValues(result).Inc()
		answers = append(answers, a)
	}
	return answers
}
