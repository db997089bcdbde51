package measure

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

// Patience bounds every wait for a process.
const Patience = 20 * time.Minute

// Process is a running signer, or rotator. It is not started again when it ends.
type Process struct {
	process.Program
	metrics string // URL
	Started time.Time
	Reached time.Time // when what was waited for had come
}

// Scrape reads the metrics of the process.
func (p *Process) Scrape() (process.Families, error) {
	return process.Scrape(context.Background(), p.metrics)
}

// Signal sends the process a signal, such as SIGSTOP.
func (p *Process) Signal(signal syscall.Signal) error { return syscall.Kill(p.PID(), signal) }

// Usage is what a process took until it had done what was asked.
type Usage struct {
	N             int // certificates
	Took, CPU     time.Duration
	Peak          float64 // bytes
	Writes, Reads float64
	Events        int
}

// Rate is how many certificates a second.
func (u Usage) Rate() float64 { return float64(u.N) / u.Took.Seconds() }

// GOMEMLIMIT of the processes in deploy/install.yaml, in MiB.
const (
	SignerMemory  = 112
	TrustMemory   = 160
	RotatorMemory = 160
)

// SignerGOGC is the signer's pace of collections in deploy/install.yaml.
const SignerGOGC = "GOGC=200"

// Limited is the environment of a program with a GOMEMLIMIT in MiB, whose log tells what its
// garbage collector does.
func Limited(memory int) []string {
	return []string{fmt.Sprintf("GOMEMLIMIT=%dMiB", memory), "GODEBUG=gctrace=1"}
}

// RunSigner starts the signer with the limits of deploy/install.yaml.
func (c *Cluster) RunSigner(ctx context.Context, binary string, workers int, flags ...string) (*Process, error) {
	return c.Run(ctx, binary, append(Limited(SignerMemory), SignerGOGC), append(flags, "--workers", strconv.Itoa(workers))...)
}

// RunRotator starts the rotator with the limits of deploy/install.yaml.
func (c *Cluster) RunRotator(ctx context.Context, binary string, flags ...string) (*Process, error) {
	return c.Run(ctx, binary, Limited(RotatorMemory), flags...)
}

// Run starts a binary of cmd on the cluster, as its administrator unless the arguments name
// another kubeconfig.
func (c *Cluster) Run(_ context.Context, binary string, env []string, args ...string) (*Process, error) {
	metrics, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(c.Dir, "*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{metrics: "http://" + metrics + "/metrics", Started: time.Now()}
	p.Path, p.Env, p.NoHealth, p.Once, p.Log.File = binary, env, true, true, log.Name()
	p.Args = append([]string{"--kubeconfig", c.Plane.KubeconfigFile(), "--metrics-addr", metrics, "--metrics-insecure", "--health-addr", "0"}, args...)
	return p, p.Program.Run()
}

// WaitReconciled waits until the signer has looked at n Secrets.
func (p *Process) WaitReconciled(ctx context.Context, n int) error {
	return p.Wait(ctx, fmt.Sprintf("a look at %d Secrets", n), func() (time.Duration, bool) {
		m, err := p.Scrape()
		return 500 * time.Millisecond, err == nil && m.Sum("controller_runtime_reconcile_total", "controller", "signer") >= float64(n) && m.Sum("workqueue_depth", "controller", "signer") == 0
	})
}

// Wait asks whether something is done, again after the pause that the answer names.
func (p *Process) Wait(ctx context.Context, what string, done func() (pause time.Duration, done bool)) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		pause, done := done()
		if done {
			p.Reached = time.Now()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no %s after %s: %w; its log ends:\n%s", what, time.Since(p.Started).Round(time.Second), ctx.Err(), strings.Join(p.Log.Tail(12), "\n"))
		case <-time.After(pause):
		}
	}
}

// Usage reads what the signer has used so far.
func (p *Process) Usage() (Usage, error) {
	m, err := p.Scrape()
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Took: p.Reached.Sub(p.Started)}
	u.CPU = time.Duration(m.Sum("process_cpu_seconds_total") * float64(time.Second))
	u.Writes = m.Writes()
	u.Reads = m.Sum("rest_client_requests_total", "method", http.MethodGet)
	u.Peak, err = process.PeakRSS(p.PID())
	return u, err
}
