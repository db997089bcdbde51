package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Patience bounds every wait for a process.
const Patience = 20 * time.Minute

// Process is a running signer, or rotator.
type Process struct {
	cmd     *exec.Cmd
	metrics string // URL
	Log     string // path
	Started time.Time
	Reached time.Time // when what was waited for had come
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

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
func (c *Cluster) Run(ctx context.Context, binary string, env []string, args ...string) (*Process, error) {
	metrics, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(c.Dir, "*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, binary, append([]string{"--kubeconfig", c.Plane.KubeconfigFile(), "--metrics-addr", metrics, "--metrics-insecure", "--health-addr", "0"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	p := &Process{cmd: cmd, metrics: "http://" + metrics + "/metrics", Log: log.Name(), Started: time.Now()}
	return p, cmd.Start()
}

// FreeAddress is a host:port of loopback where nothing listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Stop has the signer give up its Lease and end.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// Kill ends a signer that was not stopped.
func (p *Process) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// Signal sends the process a signal, such as SIGSTOP.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

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
			tail, _ := os.ReadFile(p.Log)
			return fmt.Errorf("no %s after %s: %w; its log ends:\n%s", what, time.Since(p.Started).Round(time.Second), ctx.Err(), tail[max(0, len(tail)-2000):])
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
	u.Peak, err = PeakRSS(p.cmd.Process.Pid)
	return u, err
}

// PeakRSS is the most memory that a process had resident, in bytes.
func PeakRSS(pid int) (float64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("no VmHWM in the process's status")
}

// Families are metrics as scraped.
type Families map[string]*dto.MetricFamily

// Scrape reads the metrics of the process.
func (p *Process) Scrape() (Families, error) {
	request, err := http.NewRequest(http.MethodGet, p.metrics, nil)
	if err != nil {
		return nil, err
	}
	return Scrape(request)
}

// Scrape reads the metrics that a request asks for.
func Scrape(request *http.Request) (Families, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// Sum adds the series of a counter or gauge whose labels hold the given pairs.
func (m Families) Sum(name string, labels ...string) float64 {
	var total float64
	for _, series := range m[name].GetMetric() {
		have := map[string]string{}
		for _, l := range series.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 0; i+1 < len(labels); i += 2 {
			matches = matches && have[labels[i]] == labels[i+1]
		}
		if matches {
			total += series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return total
}

// Writes is how many requests that write a process has made.
func (m Families) Writes() (n float64) {
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		n += m.Sum("rest_client_requests_total", "method", method)
	}
	return n
}

// Collections reads from the log of a process what its garbage collector did so far.
func (p *Process) Collections() (Collections, error) {
	log, err := os.Open(p.Log)
	if err != nil {
		return Collections{}, err
	}
	c, err := ReadCollections(log)
	return c, errors.Join(err, log.Close())
}
