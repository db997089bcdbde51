package main

import (
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
	"sync"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/hack/controlplane"
)

const (
	// grace is how long a process has to end by itself.
	grace = 5 * time.Second
	// A kubelet's liveness probe as install.yaml has it.
	livenessPeriod   = 10 * time.Second
	livenessTimeout  = 5 * time.Second
	livenessFailures = 3
	// maxRestarts ends a process that ends again and again for good.
	maxRestarts = 10
	// clockTick is the unit of CPU time in /proc, USER_HZ, which is 100 on Linux.
	clockTick = 10 * time.Millisecond
)

// process is one of the three, which is started again whenever it ends, as a kubelet does.
type process struct {
	name, path string
	args, env  []string
	dir, log   string
	health     string // HOST:PORT
	metrics    string // HOST:PORT
	limit      int64  // bytes

	stopping chan struct{}
	gone     chan struct{} // closed when no other will be started

	mu       sync.Mutex
	cmd      *exec.Cmd
	killed   bool     // by probe
	restarts []string // why
	peak     int64    // of those that ended, in bytes
	cpu      time.Duration
}

// start runs the process until stop.
func (p *process) start() error {
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
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	go p.probe()
	return nil
}

// once starts the process once.
func (p *process) once() error {
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
	p.cmd = cmd
	return cmd.Start()
}

// wait waits until the process has ended, and reports whether it is to be started again.
func (p *process) wait() (again bool) {
	_ = p.cmd.Wait() // how it ended is in ProcessState
	p.mu.Lock()
	defer p.mu.Unlock()
	state := p.cmd.ProcessState
	p.cpu += state.UserTime() + state.SystemTime()
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		p.peak = max(p.peak, usage.Maxrss<<10)
	}
	select {
	case <-p.stopping:
		return false
	default:
	}
	why := fmt.Sprintf("it ended: %s", state)
	if p.killed {
		p.killed, why = false, fmt.Sprintf("its liveness probe failed %d times", livenessFailures)
	}
	p.restarts = append(p.restarts, why+"; its log ends: "+tail(p.log))
	return len(p.restarts) <= maxRestarts
}

// probe ends the process if it does not answer, as a liveness probe does.
func (p *process) probe() {
	ticker := time.NewTicker(livenessPeriod)
	defer ticker.Stop()
	failed := 0
	client := &http.Client{Timeout: livenessTimeout}
	for {
		select {
		case <-p.gone:
			return
		case <-ticker.C:
		}
		if controlplane.GetOK(context.Background(), client, "http://"+p.health+"/healthz") == nil {
			failed = 0
		} else if failed++; failed == livenessFailures {
			failed = 0
			p.mu.Lock()
			p.killed = true
			_ = p.cmd.Process.Kill() // it may have just ended
			p.mu.Unlock()
		}
	}
}

// stop ends the process and waits until it is gone. None of the three has children.
func (p *process) stop() error {
	close(p.stopping)
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		p.mu.Lock()
		err := p.cmd.Process.Signal(signal)
		p.mu.Unlock()
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", p.name, err)
		}
		select {
		case <-p.gone:
			return nil
		case <-time.After(grace):
		}
	}
	return fmt.Errorf("stop %s: it is still there", p.name)
}

// usage is what a process took in a round.
type usage struct {
	restarts []string
	peak     int64 // bytes of resident memory
	cpu      time.Duration
}

// reset begins a round.
func (p *process) reset() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peak, p.cpu, p.restarts = 0, -cpuOf(p.cmd.Process.Pid), nil
	// 5 sets the peak to what is resident now: proc_pid_clear_refs(5).
	return os.WriteFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "clear_refs"), []byte("5"), 0)
}

// usage returns what the process, and those that ended before it, took since reset.
func (p *process) usage() usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid := p.cmd.Process.Pid
	return usage{p.restarts, max(p.peak, peakOf(pid)), p.cpu + cpuOf(pid)}
}

// peakOf returns the most memory that was resident, 0 if the process has ended.
func peakOf(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// cpuOf returns the CPU time of a process, 0 if it has ended.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// The second field is a name in parentheses; utime and stime are the 14th and 15th.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, i := range []int{11, 12} {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * clockTick
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
