package installed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// Process is a replica of a Deployment.
type Process struct {
	process.Program
	Kind           string // signer, trust, rotator or webhook
	ServiceAccount string
	Metrics        string // HOST:PORT
	Address        string // HOST:PORT of a webhook with an address of its own
	Limit          int64  // bytes of memory
}

// Run starts a process as its Deployment does, with the flags that a process outside of the cluster
// needs, and further arguments. It does not wait until the process is ready. A second replica of a
// kind is called KIND-2.
func (c *Cluster) Run(ctx context.Context, kind string, args ...string) (*Process, error) {
	deployment, err := c.Clientset.AppsV1().Deployments(api.DefaultNamespace).Get(ctx, "servingcert-"+kind, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	spec := deployment.Spec.Template.Spec
	name := kind
	if n := len(c.Of(kind)); n > 0 {
		name = fmt.Sprint(kind, "-", n+1)
	}
	cfg, err := c.Plane.ServiceAccountConfig(ctx, api.DefaultNamespace, spec.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	if c.options.Via != nil {
		c.options.Via(cfg)
	}
	kubeconfig := c.Path(name + ".kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, cfg); err != nil {
		return nil, err
	}
	metrics, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	outside := []string{"--kubeconfig=" + kubeconfig, "--metrics-addr=" + metrics}
	if kind == "webhook" {
		outside = append(outside, "--cert-dir="+c.CertDir())
	}
	container := spec.Containers[0]
	program, _ := deploy.Program(kind)
	p := &Process{Kind: kind, ServiceAccount: spec.ServiceAccountName, Metrics: metrics, Limit: container.Resources.Limits.Memory().Value()}
	p.Label, p.Path, p.Dir, p.Log.File = name, c.Path("bin", program), c.dir, c.Path("logs", name+".log")
	p.Args = slices.Concat(container.Args, outside, c.options.Flags[kind], args)
	p.Env = environment(&container)
	if c.options.Env != nil {
		p.Env = append(p.Env, c.options.Env()...)
	}
	p.Once, p.Pause = c.options.Once, c.options.Pause
	if err := p.Program.Run(); err != nil {
		return nil, err
	}
	c.Processes = append(c.Processes, p)
	return p, nil
}

// Kinds returns the kinds of processes, in the order in which RunAll starts them.
func Kinds() []string { return []string{"signer", "rotator", "trust", "webhook"} }

// RunAll runs the processes of each Deployment with further arguments, the webhook at its Service's
// ClusterIP, or behind it if there are several. It calls started for each, and returns when all are
// ready.
func (c *Cluster) RunAll(ctx context.Context, started func(*Process), args ...string) error {
	replicas := max(1, c.options.Replicas)
	var host, service string
	for _, kind := range Kinds() {
		if kind == "webhook" {
			var err error
			host, service, err = c.WebhookAddress(ctx)
			if err := errors.Join(err, c.AwaitCABundle(ctx), c.KeepVolume(ctx)); err != nil {
				return err
			}
		}
		for range replicas {
			own, address, err := bind(kind, host, replicas)
			if err != nil {
				return err
			}
			p, err := c.Run(ctx, kind, slices.Concat(args, own)...)
			if err != nil {
				return err
			}
			p.Address = address
			started(p)
			if err := p.AwaitReady(ctx); err != nil {
				return err
			}
		}
	}
	if replicas == 1 {
		return nil
	}
	return c.balance(ctx, service, c.Of("webhook"))
}

// bind returns the arguments for where a webhook serves: at the host of its Service, or, if it is one
// of several, at an address of its own, which is returned as well.
func bind(kind, host string, replicas int) (args []string, address string, err error) {
	switch {
	case kind != "webhook":
		return nil, "", nil
	case replicas == 1:
		return []string{"--bind-address=" + host, "--shutdown-delay=0s"}, "", nil
	}
	if address, err = process.FreeAddress(); err != nil {
		return nil, "", err
	}
	host, port, err := net.SplitHostPort(address)
	return []string{"--bind-address=" + host, "--port=" + port}, address, err
}

// balance plays a Service: each new connection goes to the next replica that was ready when it last
// looked. As kube-proxy does, it does not try another one if that refuses.
func (c *Cluster) balance(ctx context.Context, service string, replicas []*Process) error {
	var ready atomic.Pointer[[]string] // addresses
	look := func(ctx context.Context) {
		var now []string
		for _, p := range replicas {
			if p.Ready(ctx) == nil {
				now = append(now, p.Address)
			}
		}
		ready.Store(&now)
	}
	look(ctx)
	c.Every(time.Second, look)
	var next atomic.Int64
	f, err := Forward(service, func() string { return pick(*ready.Load(), next.Add(1)) })
	if err == nil {
		c.AtEnd(f.Close)
	}
	return err
}

// pick returns the n-th of addresses, which begin again after the last; "" if there are none.
func pick(addresses []string, n int64) string {
	if len(addresses) == 0 {
		return ""
	}
	return addresses[n%int64(len(addresses))]
}

// Probe ends a process whenever it does not answer any more, as a liveness probe of its Deployment does,
// and calls dead. It is started again then. One that has just started, and waits for its API server or
// for a processor, may take longer to answer first.
func (c *Cluster) Probe(p *Process, dead func()) {
	const period, timeout, failures = 10 * time.Second, 5 * time.Second, 3
	prober := &http.Client{Timeout: timeout}
	answered, failed := 0, 0 // the process that did, and how often it has not since
	c.Every(period, func(ctx context.Context) {
		pid := p.PID()
		switch err := controlplane.GetOK(ctx, prober, "http://"+p.Health()+"/healthz"); {
		case err == nil:
			answered, failed = pid, 0
		case pid != answered || ctx.Err() != nil:
			failed = 0
		default:
			failed++
		}
		if failed == failures {
			failed = 0
			dead()
			_ = p.Crash() // it may have just ended
		}
	})
}

// environment returns the variables of a container.
func environment(c *corev1.Container) []string {
	var env []string
	for _, e := range c.Env {
		value := e.Value
		if f := e.ValueFrom; f != nil && f.ResourceFieldRef != nil && f.ResourceFieldRef.Resource == "requests."+string(corev1.ResourceMemory) {
			value = fmt.Sprint(c.Resources.Requests.Memory().Value())
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

// Of returns the replicas of a Deployment.
func (c *Cluster) Of(kind string) []*Process {
	var out []*Process
	for _, p := range c.Processes {
		if p.Kind == kind {
			out = append(out, p)
		}
	}
	return out
}

// Ready returns nil if all processes are ready.
func (c *Cluster) Ready(ctx context.Context) error {
	for _, p := range c.Processes {
		if err := p.Ready(ctx); err != nil {
			return fmt.Errorf("the %s is not ready: %w; its log ends: %s", p.Name(), err, p.Log.Tail(1)[0])
		}
	}
	return nil
}

// Scrape reads the metrics of the process, if --metrics-insecure is among its flags.
func (p *Process) Scrape(ctx context.Context) (process.Families, error) {
	return process.Scrape(ctx, "http://"+p.Metrics+"/metrics")
}

// Leads reports whether the process is the leader.
func (p *Process) Leads(ctx context.Context) bool {
	m, err := p.Scrape(ctx)
	return err == nil && m.Sum("leader_election_master_status") == 1
}

// OneLeads is nil if of signer, rotator and trust one replica leads each.
func (c *Cluster) OneLeads(ctx context.Context) error {
	for _, kind := range Kinds()[:3] {
		leaders := 0
		for _, p := range c.Of(kind) {
			if p.Leads(ctx) {
				leaders++
			}
		}
		if leaders != 1 {
			return fmt.Errorf("%d replicas of the %s lead", leaders, kind)
		}
	}
	return nil
}

// Leader returns the replica that leads.
func (c *Cluster) Leader(ctx context.Context, kind string) (*Process, error) {
	for _, p := range c.Of(kind) {
		if p.Leads(ctx) {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no %s leads", kind)
}
