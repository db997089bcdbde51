package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/servingcert/servingcert/test/keymaterial"
)

// Program is a program that is run as a kubelet runs a container: if it exits, it is restarted,
// until it is killed or stopped. A signer that cannot renew its Lease on a busy machine exits, as
// it should; the test continues with the next process.
//
// Set the exported fields while the program does not run. All methods are safe for concurrent use.
type Program struct {
	Label string // name in errors (default: the executable's)
	Path  string
	Args  []string // without --health-addr, which is appended unless NoHealth
	Env   []string // in addition to Inherited
	Dir   string   // working directory (default: this process's)

	NoHealth bool          // the program has no /readyz: it is ready once it has started
	Once     bool          // do not restart the program
	Pause    time.Duration // between an exit and the restart (default: exponential, see firstBackoff)

	// Log is the output of all processes, with a line for each restart.
	Log Log

	cleanup sync.Once
	mu      sync.Mutex // guards the fields below, and the fields of run that change
	run     *run
	total   int // restarts of all runs
	history history
}

// Start calls Launch, and waits until the program is ready.
func (p *Program) Start(t testing.TB) {
	t.Helper()
	p.Launch(t)
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Launch runs the program, and kills it when the test ends. A crash or a private key in the log fails the test;
// the log of a failed test is printed. Launch may be called again after Kill or Stop.
func (p *Program) Launch(t testing.TB) {
	t.Helper()
	p.cleanup.Do(func() {
		t.Cleanup(func() {
			p.Kill()
			if err := p.Err(); err != nil {
				t.Error(err)
			}
			if keymaterial.Holds([]byte(p.Log.String())) {
				t.Error("the log of the " + p.Name() + " holds a private key")
			}
			if t.Failed() {
				t.Logf("log of the %s:\n%s", p.Name(), p.Log.String())
			}
		})
	})
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
}

// StopAtEnd stops the program when the test ends, as a kubelet does, instead of killing it, so that
// it releases its Lease. The program must exit without an error.
func (p *Program) StopAtEnd(t testing.TB) {
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("the %s ended with: %v", p.Name(), err)
		}
	})
}

// Name returns the program's name in errors.
func (p *Program) Name() string { return cmp.Or(p.Label, filepath.Base(p.Path)) }

// Run starts the program without waiting until it is ready. The caller must call Kill or Stop. Run
// returns an error if the program is running.
func (p *Program) Run() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.run != nil && !p.run.hasEnded() {
		before := p.run
		if !before.ending {
			return fmt.Errorf("start the %s: it is already running", p.Name())
		}
		p.mu.Unlock() // so that the run can end
		<-before.done
		p.mu.Lock()
	}
	r := &run{
		path: p.Path, args: slices.Clone(p.Args), dir: p.Dir, noHealth: p.NoHealth,
		env:  slices.Concat(Inherited(), p.Env),
		over: make(chan struct{}), done: make(chan struct{}),
	}
	if !p.NoHealth {
		var err error
		if r.health, err = FreeAddress(); err != nil {
			return err
		}
		r.args = append(r.args, "--health-addr="+r.health)
	}
	started := make(chan error)
	go p.supervise(r, started)
	if err := <-started; err != nil {
		return fmt.Errorf("start the %s: %w", p.Name(), err)
	}
	p.run = r
	return nil
}

// Inherited returns the environment of this process without proxies, through which kube-apiserver
// would call webhooks, and without the GOGC that make test sets for the tests.
func Inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "GOGC" || strings.HasSuffix(strings.ToLower(name), "_proxy")
	})
}

// AwaitReady waits until the program is ready. The error contains the last answer of /readyz, or the
// reason why the program cannot become ready.
func (p *Program) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Soon)
	defer cancel()
	for {
		final, err := p.notReady()
		if err == nil || final {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the %s is ready: %w: %w", p.Name(), ctx.Err(), err)
		case <-time.After(Tick):
		}
	}
}

// notReady returns why the program is not ready, and whether that is final.
func (p *Program) notReady() (final bool, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r := p.run; {
	case r == nil:
		return true, fmt.Errorf("the %s was not started", p.Name())
	case r.gaveUp != nil:
		return true, r.gaveUp
	case r.ending:
		return true, fmt.Errorf("the %s was stopped", p.Name())
	case r.process == nil:
		return false, errors.New("the process ended, and is about to be restarted")
	case r.ready:
		return false, nil
	default:
		return false, r.answer
	}
}

// Crash kills the process. The program is restarted, as after any exit, but Ends does not list this one.
func (p *Program) Crash() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.process == nil {
		return fmt.Errorf("kill the %s: it is not running", p.Name())
	}
	p.run.crashed = true
	return p.run.process.Process.Kill()
}

// Kill kills the program, as a failing node does. Only Start, Launch or Run start it again.
func (p *Program) Kill() { _ = p.signal(syscall.SIGKILL) }

// Stop sends SIGTERM to the program, as a kubelet does, and waits. It returns an error if the program
// exits with one, or if a program with Once had exited before. It does nothing if no process runs.
func (p *Program) Stop() error { return p.signal(syscall.SIGTERM) }

// signal ends the run with a signal to the current process, and waits until it has exited.
func (p *Program) signal(sig syscall.Signal) error {
	p.mu.Lock()
	r := p.run
	if r == nil {
		p.mu.Unlock()
		return nil
	}
	if r.ending {
		once, gaveUp := p.Once, r.gaveUp
		p.mu.Unlock()
		<-r.done // another caller may still be waiting
		if once {
			return gaveUp
		}
		return nil
	}
	r.end()
	if r.process != nil {
		_ = r.process.Process.Signal(sig) // it may just have exited
	}
	p.mu.Unlock()
	return p.awaitEnd(r, sig)
}

// awaitEnd waits for the last process of a run, which was sent a signal, and returns its error. It
// kills the process if it does not exit in time.
func (p *Program) awaitEnd(r *run, sig syscall.Signal) error {
	select {
	case <-r.done:
	case <-time.After(Soon):
		p.mu.Lock()
		if r.process != nil {
			_ = r.process.Process.Kill()
		}
		p.mu.Unlock()
		<-r.done
		return fmt.Errorf("the %s did not end within %s of signal %q", p.Name(), Soon, sig)
	}
	var exit *exec.ExitError
	if errors.As(r.exit, &exit) && r.restarts > 0 {
		// A process that was just restarted may not handle signals yet.
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == sig {
			return nil
		}
	}
	return r.exit
}

// Ended returns a channel that is closed once the last process of the current run has exited.
func (p *Program) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.done
}

// PID returns the process ID, or 0 if no process runs.
func (p *Program) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.process == nil {
		return 0
	}
	return p.run.process.Process.Pid
}

// Restarts returns the number of restarts, including one that is pending.
func (p *Program) Restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Health returns the HOST:PORT of /readyz and /healthz, which stays the same after restarts.
func (p *Program) Health() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.health
}

// Ready requests /readyz, and returns nil if the program is ready.
func (p *Program) Ready(ctx context.Context) error { return answersReady(ctx, p.Health()) }

// crash matches the first line of a report by the Go runtime or the race detector. Libraries that
// recover from a panic log it in lines with another beginning.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE).*`)

// Failure returns why the program does not run although it was neither killed nor stopped.
func (p *Program) Failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	return p.run.gaveUp
}

// Err returns what must fail a test even if the program was restarted: crashes, findings of the race
// detector, and Failure.
func (p *Program) Err() error {
	var found []error
	for _, line := range crash.FindAllString(p.Log.String(), -1) {
		found = append(found, fmt.Errorf("log of the %s: %s", p.Name(), line))
	}
	return errors.Join(append(found, p.Failure())...)
}
