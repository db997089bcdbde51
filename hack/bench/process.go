package main

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

// process is a running signer, or rotator.
type process struct {
	cmd     *exec.Cmd
	metrics string // URL
	log     string // path
	started time.Time
	reached time.Time // when what was waited for had come
}

// usage is what a signer took until it had done what was asked.
type usage struct {
	n             int
	took, cpu     time.Duration
	peak          float64 // bytes
	writes, reads float64
	events        int
}

func (u usage) rate() float64 { return float64(u.n) / u.took.Seconds() }

func (b *bench) startSigner(ctx context.Context, flags ...string) (*process, error) {
	env := []string{"GOMEMLIMIT=112MiB", "GODEBUG=gctrace=1"}
	if b.profile != "" {
		dir, err := b.profileDir()
		if err != nil {
			return nil, err
		}
		env = append(env, "SERVINGCERT_BENCH_PROFILE="+dir)
	}
	return b.start(ctx, env, append(flags, "--workers", strconv.Itoa(b.workers))...) // as in deploy/install.yaml
}

func (b *bench) start(ctx context.Context, env []string, args ...string) (*process, error) {
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(b.dir, "*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, b.binary, append(args, "--kubeconfig", b.kubeconfig, "--metrics-addr", metrics, "--metrics-insecure", "--health-addr", "0")...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	p := &process{cmd: cmd, metrics: "http://" + metrics + "/metrics", log: log.Name(), started: time.Now()}
	return p, cmd.Start()
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// stop has the signer give up its Lease and end.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// kill ends a signer that was not stopped.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// waitReconciled waits until the signer has looked at n Secrets.
func (p *process) waitReconciled(ctx context.Context, n int) error {
	return p.wait(ctx, fmt.Sprintf("a look at %d Secrets", n), func() (time.Duration, bool) {
		m, err := p.scrape()
		return 500 * time.Millisecond, err == nil && m.sum("controller_runtime_reconcile_total", "controller", "signer") >= float64(n) && m.sum("workqueue_depth", "controller", "signer") == 0
	})
}

// wait asks whether something is done, again after the pause that the answer names.
func (p *process) wait(ctx context.Context, what string, done func() (pause time.Duration, done bool)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		pause, done := done()
		if done {
			p.reached = time.Now()
			return nil
		}
		select {
		case <-ctx.Done():
			tail, _ := os.ReadFile(p.log)
			return fmt.Errorf("no %s after %s: %w; its log ends:\n%s", what, time.Since(p.started).Round(time.Second), ctx.Err(), tail[max(0, len(tail)-2000):])
		case <-time.After(pause):
		}
	}
}

// usage reads what the signer has used so far.
func (p *process) usage() (usage, error) {
	m, err := p.scrape()
	if err != nil {
		return usage{}, err
	}
	u := usage{took: p.reached.Sub(p.started)}
	u.cpu = time.Duration(m.sum("process_cpu_seconds_total") * float64(time.Second))
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		u.writes += m.sum("rest_client_requests_total", "method", method)
	}
	u.reads = m.sum("rest_client_requests_total", "method", http.MethodGet)
	u.peak, err = peakRSS(p.cmd.Process.Pid)
	return u, err
}

func peakRSS(pid int) (float64, error) {
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

// families are metrics as scraped.
type families map[string]*dto.MetricFamily

func (p *process) scrape() (families, error) {
	request, err := http.NewRequest(http.MethodGet, p.metrics, nil)
	if err != nil {
		return nil, err
	}
	return scrape(request)
}

func scrape(request *http.Request) (families, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// sum adds the series of a counter or gauge whose labels hold the given pairs.
func (m families) sum(name string, labels ...string) float64 {
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
