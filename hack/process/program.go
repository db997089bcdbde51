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
	"sync"
	"syscall"
	"testing"
	"time"
)

// Program is one of the programs of cmd, run as a kubelet runs a container: when it ends by
// itself it is started again, until it is killed or stopped. A signer that could not renew
// its Lease on a busy machine ends, as it should; the test continues with the next one.
//
// The exported fields may be set while it does not run. All methods are safe for concurrent use.
type Program struct {
	Label string // its name in errors; the executable's if it is empty
	Path  string
	Args  []string // --health-addr follows them, unless NoHealth
	Env   []string // in addition to the environment of who starts it
	Dir   string   // its working directory; that of who starts it if it is empty

	NoHealth bool          // it has no /readyz, and is ready once it was started
	Once     bool          // it is not started again
	Pause    time.Duration // from each end to the next start; 0: longer each time, see firstBackoff

	// Log is all that it wrote, whenever it ran, with a line for each restart.
	Log Log

	patience time.Duration // Soon if it is 0
	cleanup  sync.Once
	mu       sync.Mutex // guards what follows, and what changes of run
	run      *run
	total    int // restarts of all runs
	history  history
}

// Start is Launch, and waits until the program is ready.
func (p *Program) Start(t testing.TB) {
	t.Helper()
	p.Launch(t)
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Launch runs the program until the test ends, when it is killed. Its log is shown if the test
// failed; a crash in it fails the test. It may be called again after Kill or Stop.
func (p *Program) Launch(t testing.TB) {
	t.Helper()
	p.cleanup.Do(func() {
		t.Cleanup(func() {
			p.Kill()
			if err := p.Err(); err != nil {
				t.Error(err)
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

// StopAtEnd has the program stopped when the test ends, as a kubelet stops it, and not killed:
// its Lease is free for what follows. It must end well.
func (p *Program) StopAtEnd(t testing.TB) {
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("the %s ended with: %v", p.Name(), err)
		}
	})
}

// Name is what errors call it.
func (p *Program) Name() string { return cmp.Or(p.Label, filepath.Base(p.Path)) }

// Run starts the program, and does not wait until it is ready. The caller kills or stops it.
// It is an error if it runs.
func (p *Program) Run() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.run != nil && !p.run.hasEnded() {
		before := p.run
		if !before.ending {
			return fmt.Errorf("start the %s: it runs", p.Name())
		}
		p.mu.Unlock() // for it to end
		<-before.done
		p.mu.Lock()
	}
	r := &run{
		path: p.Path, args: slices.Clone(p.Args), dir: p.Dir, noHealth: p.NoHealth,
		env:  slices.Concat(os.Environ(), []string{"GOGC="}, p.Env), // make test's is for the tests
		over: make(chan struct{}), done: make(chan struct{}),
	}
	if !p.NoHealth {
		var err error
		if r.health, err = FreeAddress(); err != nil {
			return err
		}
		r.args = append(r.args, "--health-addr="+r.health)
	}
	if err := r.start(&p.Log); err != nil {
		return fmt.Errorf("start the %s: %w", p.Name(), err)
	}
	p.run = r
	go p.supervise(r, r.process)
	return nil
}

// AwaitReady waits until the program is ready. The error has its last answer, or says how it
// ended if it does not come to be ready at all.
func (p *Program) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit())
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

// limit is how long anything may take.
func (p *Program) limit() time.Duration {
	if p.patience > 0 {
		return p.patience
	}
	return Soon
}

// notReady tells why the program is not ready, and whether that will not change.
func (p *Program) notReady() (final bool, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r := p.run; {
	case r == nil:
		return true, fmt.Errorf("the %s was not started", p.Name())
	case r.gaveUp != nil:
		return true, r.gaveUp
	case r.ending:
		return true, fmt.Errorf("the %s was ended", p.Name())
	case r.process == nil:
		return false, errors.New("it ended, and is about to be started again")
	case r.ready:
		return false, nil
	default:
		return false, r.answer
	}
}

// Crash kills the process as kill -9 does. Another one follows, as after any end that was not
// asked for, but Ends does not have it.
func (p *Program) Crash() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.process == nil {
		return fmt.Errorf("kill the %s: it does not run", p.Name())
	}
	p.run.crashed = true
	return p.run.process.Process.Kill()
}

// Kill ends the program as a node that fails does. It stays dead until Start, Launch or Run.
func (p *Program) Kill() { _ = p.signal(syscall.SIGKILL) }

// Stop ends the program as a kubelet does, and returns how it ended: nil if it ended well, or
// did not run. It is an error if one with Once had ended by itself.
func (p *Program) Stop() error { return p.signal(syscall.SIGTERM) }

// signal ends the run by a signal to the current process, and waits for its end.
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
		<-r.done // who ends it may still be waiting
		if once {
			return gaveUp
		}
		return nil
	}
	r.end()
	if r.process != nil {
		_ = r.process.Process.Signal(sig) // it may just have ended
	}
	p.mu.Unlock()
	return p.awaitEnd(r, sig)
}

// awaitEnd returns how the last process of a run ended, which has got a signal. It is killed
// if it does not heed that.
func (p *Program) awaitEnd(r *run, sig syscall.Signal) error {
	select {
	case <-r.done:
	case <-time.After(p.limit()):
		p.mu.Lock()
		if r.process != nil {
			_ = r.process.Process.Kill()
		}
		p.mu.Unlock()
		<-r.done
		return fmt.Errorf("the %s did not end within %s of signal %q", p.Name(), p.limit(), sig)
	}
	var exit *exec.ExitError
	if errors.As(r.exit, &exit) && r.restarts > 0 {
		// One that has just been started again does not catch signals yet.
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == sig {
			return nil
		}
	}
	return r.exit
}

// Ended is closed once Kill or Stop has ended the program that was started last.
func (p *Program) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.done
}

// PID is the process's number, or 0 if none runs.
func (p *Program) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.process == nil {
		return 0
	}
	return p.run.process.Process.Pid
}

// Restarts is how often the program has ended by itself and was, or is about to be, started
// again.
func (p *Program) Restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Health is the host:port of /readyz and /healthz since it was started last, not by itself.
func (p *Program) Health() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.health
}

// Ready tells what /readyz answers now: nil if the program is ready.
func (p *Program) Ready(ctx context.Context) error { return answersReady(ctx, p.Health()) }

// crash is the first line of what the Go runtime and its race detector write. A panic that a
// library recovered from is logged in a line that begins otherwise.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE).*`)

// Err returns what no test may overlook, even if the program was started again: that it
// crashed, that the race detector found something, and that it could not be kept running.
func (p *Program) Err() error {
	var found []error
	for _, line := range crash.FindAllString(p.Log.String(), -1) {
		found = append(found, fmt.Errorf("log of the %s: %s", p.Name(), line))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && p.run.gaveUp != nil {
		found = append(found, p.run.gaveUp)
	}
	return errors.Join(found...)
}
