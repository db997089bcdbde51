// Package controller dials pods, many at a time, and reports their answers. What
// an answer means is decided in package probe.
package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// Prober dials pods, a bounded number at a time, which namespaces share (probe.Queue). A
// pod that waits to be dialled is not dialled twice.
type Prober struct {
	// Trust is what certificates are judged by.
	Trust *Trust

	cfg   Config
	now   func() time.Time
	trust func(context.Context) probe.Trust
	// ready waits until the CA's status is known.
	ready func(context.Context) bool
	// done is called with what a pod answered.
	done    func(probe.Visit, []probe.Answer)
	results *prometheus.CounterVec // by result
	refused *prometheus.CounterVec // by reason

	addresses probe.Addresses
	dial      func(ctx context.Context, address, name string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome // dial.Dial

	mu      sync.Mutex
	changed *sync.Cond // a visit was added or has ended, or the prober stops
	queue   *probe.Queue
}

// Setup adds the prober to mgr. done is called with what a pod answered.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, done func(probe.Visit, []probe.Answer)) (*Prober, error) {
	known, err := addTrust(c)
	if err != nil {
		return nil, err
	}
	p, err := newProber(cfg, c.Now, known.Get, done)
	if err != nil {
		return nil, err
	}
	p.Trust, p.ready = known, known.Cache.WaitForCacheSync
	if err := errors.Join(c.Metrics.Register(p.results), c.Metrics.Register(p.refused)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if err := mgr.Add(p); err != nil {
		return nil, fmt.Errorf("add the prober: %w", err)
	}
	return p, nil
}

func newProber(cfg Config, now func() time.Time, trust func(context.Context) probe.Trust, done func(probe.Visit, []probe.Answer)) (*Prober, error) {
	ranges, err := api.ParseRanges(cfg.PodCIDRs)
	if err != nil {
		return nil, fmt.Errorf("--pod-cidrs: %w", err)
	}
	p := &Prober{
		cfg: cfg, now: now, trust: trust, done: done, ready: func(context.Context) bool { return true },
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_probes_total",
			Help: "Ports of pods dialled to see which certificate they serve, by result: tls, plaintext, refused, timeout, reset, closed, alert, other, first_words or panic.",
		}, []string{"result"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_visits_refused_total",
			Help: "Pods that were not dialled because of their address, by reason: loopback, link_local, metadata, multicast, unspecified, translated, api_server, not_node or outside_cidr.",
		}, []string{"reason"}),
		addresses: probe.Addresses{Ranges: ranges, APIServer: cfg.APIServer},
		dial:      dial.Dial,
		queue:     probe.NewQueue(cfg.Concurrency),
	}
	p.changed = sync.NewCond(&p.mu)
	return p, nil
}

// Ask has the pod dialled, unless that is under way. A visit that waits is replaced.
func (p *Prober) Ask(v probe.Visit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue.Add(v) {
		p.changed.Signal()
	}
}

// Start dials until ctx ends. It runs on the leader.
func (p *Prober) Start(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
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
	workers.Wait()
	return nil
}

// next waits for a visit; false if ctx has ended.
func (p *Prober) next(ctx context.Context) (probe.Visit, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return probe.Visit{}, false
		}
		if v, ok := p.queue.Next(); ok {
			return v, true
		}
		p.changed.Wait()
	}
}

func (p *Prober) work(ctx context.Context) bool {
	v, ok := p.next(ctx)
	if !ok {
		return false
	}
	answers := p.visit(ctx, v)
	if ctx.Err() == nil { // else what failed is this process
		p.done(v, answers)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Done(v.Key)
	p.changed.Signal()
	return true
}

// visit dials one port after the other, and ends with the first that gives no answer
// in time, or when the time limit of one port is over for all of them together. It takes
// at most twice that limit. Ports that it does not come to have no answer. A pod whose
// address is refused is not dialled at all.
func (p *Prober) visit(ctx context.Context, v probe.Visit) []probe.Answer {
	if cause := p.addresses.Refuse(v); cause != "" {
		p.refused.WithLabelValues(string(cause)).Inc()
		return v.Unverified(p.now(), cause)
	}
	answers := make([]probe.Answer, 0, len(v.Ports))
	begun := p.now()
	for _, port := range v.Ports {
		answer := p.ask(ctx, v, port)
		answer.Slow = answer.Cause == probe.CauseTimeout || p.now().Sub(begun) >= p.cfg.Timeout
		if answers = append(answers, answer); answer.Slow {
			break
		}
	}
	return answers
}

// ask dials one port. What the port sends is a stranger's. If to read or to judge it ends
// in a panic, that port is not verified, and the process goes on.
func (p *Prober) ask(ctx context.Context, v probe.Visit, port uint16) (answer probe.Answer) {
	at := p.now()
	defer func() {
		if r := recover(); r != nil {
			// The value may hold what the port sent: only its type is logged.
			log.FromContext(ctx).Error(errPanic, "a pod could not be judged", "namespace", v.Of.Namespace, "secret", v.Of.Key.String(), "pod", v.Pod, "port", port,
				"type", fmt.Sprintf("%T", r), "functions", functions())
			p.results.WithLabelValues(string(probe.CausePanic)).Inc()
			answer = probe.Answer{Port: port, Protocol: v.Protocols[port], Kind: probe.NotVerified, Cause: probe.CausePanic, At: at}
		}
	}()
	outcome := p.dial(ctx, netip.AddrPortFrom(v.Address, port).String(), v.Name, v.Protocols[port], p.cfg.Timeout)
	answer = v.Answer(port, at, outcome, p.trust(ctx))
	p.results.WithLabelValues(outcome.Label()).Inc()
	return answer
}

// errPanic stands for a panic whose value is not logged.
var errPanic = errors.New("panic")

// maxFrames bounds how many functions are named of a panic.
const maxFrames = 16

// functions returns what was running at a panic, FUNCTION:LINE each, the innermost first,
// without arguments.
func functions() []string {
	var at [maxFrames]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(3, at[:])]) // 3: without this function, its caller, and Callers
	var out []string
	for {
		frame, more := frames.Next()
		out = append(out, frame.Function+":"+strconv.Itoa(frame.Line))
		if !more {
			return out
		}
	}
}
