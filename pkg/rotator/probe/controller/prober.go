// Package controller dials pods concurrently, and reports their answers. Package probe evaluates
// them.
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

// Prober dials pods with a bounded concurrency, which namespaces share (probe.Queue). A pod that
// waits already is not added again.
type Prober struct {
	// Trust is the published state of the CA.
	Trust *Trust

	cfg   Config
	now   func() time.Time
	trust func(context.Context) probe.Trust
	// ready waits until the CA's status was read.
	ready func(context.Context) bool
	// done receives the answers of a pod.
	done    func(probe.Target, []probe.Answer)
	results *prometheus.CounterVec // by result
	refused *prometheus.CounterVec // by reason

	addresses probe.Addresses
	dial      func(ctx context.Context, as dial.Client, address, name string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome
	strangers *strangers

	mu      sync.Mutex
	changed *sync.Cond // a target was added or was dialled, or the prober stops
	queue   *probe.Queue
}

// Setup adds the prober to mgr. done receives the answers of each pod.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, done func(probe.Target, []probe.Answer)) (*Prober, error) {
	trust, err := addTrust(c, api.CAStatusName)
	if err != nil {
		return nil, err
	}
	p, err := newProber(cfg, c.Now, trust.Get, done)
	if err != nil {
		return nil, err
	}
	p.Trust, p.ready = trust, trust.Cache.WaitForCacheSync
	if p.strangers.trust, err = addTrust(c, api.ClientCAStatusName); err != nil {
		return nil, err
	}
	if err := errors.Join(c.Metrics.Register(p.results), c.Metrics.Register(p.refused)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if err := mgr.Add(p); err != nil {
		return nil, fmt.Errorf("add the prober: %w", err)
	}
	return p, nil
}

func newProber(cfg Config, now func() time.Time, trust func(context.Context) probe.Trust, done func(probe.Target, []probe.Answer)) (*Prober, error) {
	ranges, err := api.ParseRanges(cfg.PodCIDRs)
	if err != nil {
		return nil, fmt.Errorf("--pod-cidrs: %w", err)
	}
	forger, err := dial.NewForger()
	if err != nil {
		return nil, err
	}
	p := &Prober{
		cfg: cfg, now: now, trust: trust, done: done, ready: func(context.Context) bool { return true },
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_probes_total",
			Help: "Ports of pods dialled to check which certificate they serve, by result: tls, plaintext, refused, timeout, reset, closed, alert, other, first_words or panic.",
		}, []string{"result"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_dials_refused_total",
			Help: "Pods that were not dialled because of their address, by reason: loopback, link_local, metadata, multicast, unspecified, translated, api_server, not_node or outside_cidr.",
		}, []string{"reason"}),
		addresses: probe.Addresses{Ranges: ranges, APIServer: cfg.APIServer},
		strangers: &strangers{forger: forger},
		dial: func(ctx context.Context, as dial.Client, address, name string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome {
			return as.By(ctx, dial.To(address), name, protocol, timeout)
		},
		queue: probe.NewQueue(cfg.Concurrency),
	}
	p.changed = sync.NewCond(&p.mu)
	return p, nil
}

// Enqueue adds a target, unless it is in progress. A target that waits already is replaced.
func (p *Prober) Enqueue(v probe.Target) {
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
	workers.Go(func() { p.strangers.follow(ctx) })
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

// next waits for a target; false if ctx has ended.
func (p *Prober) next(ctx context.Context) (probe.Target, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return probe.Target{}, false
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
	answers := p.dialPorts(ctx, v)
	if ctx.Err() == nil { // otherwise this process caused the failure
		p.done(v, answers)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Done(v.Key)
	p.changed.Signal()
	return true
}

// dialPorts dials the ports one by one. It ends at the first that times out, or when all together
// have taken the time limit of one port, so it takes at most twice that limit. Later ports have no
// answer. A pod with a refused address is not dialled.
func (p *Prober) dialPorts(ctx context.Context, v probe.Target) []probe.Answer {
	if cause := p.addresses.Refuse(v); cause != "" {
		p.refused.WithLabelValues(string(cause)).Inc()
		return v.Unverified(p.now(), cause)
	}
	answers := make([]probe.Answer, 0, len(v.Ports))
	begun := p.now()
	for _, port := range v.Ports {
		answer := p.dialPort(ctx, v, port)
		answer.Slow = answer.Cause == probe.CauseTimeout || p.now().Sub(begun) >= p.cfg.Timeout
		if answers = append(answers, answer); answer.Slow {
			break
		}
	}
	return answers
}

// dialPort dials one port. What the port sends is untrusted: after a panic in reading or evaluating
// it, the port is not verified, and the process continues.
func (p *Prober) dialPort(ctx context.Context, v probe.Target, port uint16) (answer probe.Answer) {
	at := p.now()
	defer func() {
		if r := recover(); r != nil {
			// The value may contain what the port sent: only its type is logged.
			log.FromContext(ctx).Error(errPanic, "cannot evaluate the answer of a pod", "namespace", v.Of.Namespace, "secret", v.Of.Key.String(), "pod", v.Pod, "port", port,
				"type", fmt.Sprintf("%T", r), "functions", functions())
			p.results.WithLabelValues(string(probe.CausePanic)).Inc()
			answer = v.UnverifiedAt(port, at, probe.CausePanic)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout) // for all dials of the port
	defer cancel()
	guard, guarded := v.Guards[port]
	_, proxied := v.Proxied[port]
	outcome := p.dialAs(limited, dial.Client{Proxied: proxied}, v, port)
	answer = v.Answer(port, at, outcome, p.trust(ctx))
	p.results.WithLabelValues(outcome.Label()).Inc()
	if guarded {
		answer.Guarding = guard.Try(at, answer.Leaf, outcome, func(who probe.Stranger) (probe.Judgement, probe.Cause) {
			return p.tryAs(limited, who, v, port)
		})
	}
	return answer
}

func (p *Prober) dialAs(ctx context.Context, as dial.Client, v probe.Target, port uint16) probe.Outcome {
	return p.dial(ctx, as, netip.AddrPortFrom(v.Address, port).String(), v.Name, v.Protocols[port], p.cfg.Timeout)
}

// errPanic represents a panic whose value is not logged.
var errPanic = errors.New("panic")

// maxFrames bounds the logged stack of a panic.
const maxFrames = 16

// functions returns the stack at a panic without arguments, FUNCTION:LINE each, the innermost
// first.
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
