package world

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/controlplane"
)

const (
	// grace is how long a process has to end by itself.
	grace = 10 * time.Second
	// pause is between the end of a process and its next start. A kubelet's grows with
	// each end, to five minutes.
	pause = time.Second
)

// Process is a replica of one of the three, which is started again whenever it ends.
type Process struct {
	Name, Kind string // signer-1, signer

	path      string
	args, env []string
	dir, log  string
	health    string // host:port
	metrics   string
	address   string // of a webhook

	stopping chan struct{}
	gone     chan struct{} // closed when no other will be started

	mu     sync.Mutex
	cmd    *exec.Cmd
	killed bool
	ends   []string // that nobody asked for
}

func (p *Process) start() error {
	p.stopping, p.gone = make(chan struct{}), make(chan struct{})
	started := make(chan error)
	go func() {
		// The kernel's "kill it when its parent dies" means the parent's thread, not
		// its process: the thread that forks has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.gone)
		err := p.once()
		started <- err
		for err == nil && p.wait() {
			err = p.once()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	return nil
}

func (p *Process) once() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.killed = cmd, false
	return cmd.Start()
}

// wait waits until the process has ended, and reports whether it is to be started again.
func (p *Process) wait() (again bool) {
	_ = p.cmd.Wait() // how it ended is in ProcessState
	p.mu.Lock()
	if !p.killed {
		p.ends = append(p.ends, fmt.Sprintf("%s: its log ends: %s", p.cmd.ProcessState, tail(p.log)))
	}
	p.mu.Unlock()
	select {
	case <-p.stopping:
		return false
	case <-time.After(pause):
		return true
	}
}

// Kill ends the process as kill -9 does. It is started again.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	return p.cmd.Process.Kill()
}

// stop ends the process for good and waits until it is gone. None of the three has children.
func (p *Process) stop() error {
	close(p.stopping)
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		p.mu.Lock()
		err := p.cmd.Process.Signal(signal)
		p.mu.Unlock()
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", p.Name, err)
		}
		select {
		case <-p.gone:
			return nil
		case <-time.After(grace):
		}
	}
	return fmt.Errorf("stop %s: it is still there", p.Name)
}

// Ends returns why the process ended when nobody killed it, each time.
func (p *Process) Ends() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.ends...)
}

// PID is that of the process that runs, or was the last.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Ready is nil if the process is ready.
func (p *Process) Ready(ctx context.Context) error {
	return controlplane.GetOK(ctx, http.DefaultClient, "http://"+p.health+"/readyz")
}

// Usage returns what the process holds.
func (p *Process) Usage(ctx context.Context) (invariant.Usage, error) {
	goroutines, err := p.metric(ctx, "go_goroutines")
	if err != nil {
		return invariant.Usage{}, err
	}
	statm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "statm"))
	if err != nil {
		return invariant.Usage{}, err
	}
	// The second field is what is resident, in pages: proc_pid_statm(5).
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	return invariant.Usage{Goroutines: int(goroutines), Resident: pages * int64(os.Getpagesize())}, err
}

// Leads reports whether the process holds its Lease.
func (p *Process) Leads(ctx context.Context) bool {
	leads, err := p.metric(ctx, "leader_election_master_status{")
	return err == nil && leads == 1
}

// metric returns the value of the first series whose line begins so.
func (p *Process) metric(ctx context.Context, begin string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.metrics+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, begin) {
			return strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", p.Name, begin)
}

// tail returns the last line of a file.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimSpace(data)
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}
