package installed

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	Address        string // HOST:PORT that it serves at, of a webhook with one of its own
	Limit          int64  // bytes of memory
}

// Run starts a process as its Deployment does, with the arguments that being outside of a cluster
// takes, and the given ones. It does not wait until the process is ready. Of a kind that runs
// already it is another replica, called KIND-2.
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

// RunAll runs a process of each Deployment with more arguments, the webhook where the API server looks
// for it: at its Service's ClusterIP. It calls started for each, and returns when all are ready.
func (c *Cluster) RunAll(ctx context.Context, started func(*Process), args ...string) error {
	for _, kind := range []string{"signer", "rotator", "trust", "webhook"} {
		if kind == "webhook" {
			host, _, err := c.WebhookAddress(ctx)
			if err := errors.Join(err, c.AwaitCABundle(ctx), c.KeepVolume(ctx)); err != nil {
				return err
			}
			args = append(slices.Clone(args), "--bind-address="+host, "--shutdown-delay=0s")
		}
		p, err := c.Run(ctx, kind, args...)
		if err != nil {
			return err
		}
		started(p)
		if err := p.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
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

// Ready is nil if all processes are.
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

// Leads reports whether the process holds its Lease.
func (p *Process) Leads(ctx context.Context) bool {
	m, err := p.Scrape(ctx)
	return err == nil && m.Sum("leader_election_master_status") == 1
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
