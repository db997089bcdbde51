package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// A program that ended by itself is started again after firstBackoff, twice that the next
// time, and so on up to lastBackoff: as a kubelet does, only sooner. One that was ready
// begins with firstBackoff again. mostFailedStarts is how often it may end before it was
// ready at all.
const (
	firstBackoff     = 100 * time.Millisecond
	lastBackoff      = 5 * time.Second
	mostFailedStarts = 3
)

// run is a program from Run to Kill or Stop, with the processes that follow one another.
type run struct {
	path, health string
	args, env    []string
	dir          string
	noHealth     bool
	over         chan struct{} // closed once it is not to be started again
	done         chan struct{} // closed once the last process has ended

	ending   bool      // over is closed
	process  *exec.Cmd // nil between two processes
	started  time.Time // of the last process
	restarts int
	backoff  time.Duration // before the last restart
	crashed  bool          // Crash has killed the last process
	ready    bool          // the last process has been ready
	wasReady bool          // any process has been ready
	failed   int           // processes that ended before any was ready
	answer   error         // the last answer of /readyz, if it was not ready
	exit     error         // how the process ended that was killed or stopped
	gaveUp   error         // why it was not started again
}

// start starts the next process of the run. The caller holds the lock.
func (r *run) start(log *Log) error {
	out, closeOut, err := log.open()
	if err != nil {
		return err
	}
	defer closeOut() // a process has its own descriptor
	cmd := exec.Command(r.path, r.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = r.dir, r.env, out, out, attributes()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.process, r.started, r.crashed = cmd, time.Now(), false
	r.ready, r.wasReady, r.answer = r.noHealth, r.wasReady || r.noHealth, errors.New("not asked yet")
	return nil
}

// supervise waits for the ends of the processes of a run, and starts the next one.
func (p *Program) supervise(r *run, process *exec.Cmd) {
	defer close(r.done)
	for process != nil {
		ctx, cancel := context.WithCancel(context.Background())
		probed := make(chan struct{})
		go func() { defer close(probed); p.probe(ctx, r) }()
		err := process.Wait()
		cancel()
		<-probed

		backoff, again := p.ended(r, err)
		if !again {
			return
		}
		select {
		case <-r.over:
			return
		case <-time.After(backoff):
		}
		process = p.restart(r)
	}
}

// probe asks the current process until it is ready or has ended.
func (p *Program) probe(ctx context.Context, r *run) {
	for !r.noHealth && ctx.Err() == nil {
		err := answersReady(ctx, r.health)
		p.mu.Lock()
		if r.answer = err; err == nil {
			r.ready, r.wasReady = true, true
		}
		p.mu.Unlock()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(Tick):
		}
	}
}

// ended notes that the current process has ended, and tells after what time another one is to
// follow, if one is.
func (p *Program) ended(r *run, err error) (backoff time.Duration, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history.count(r.process.ProcessState)
	r.process = nil
	if r.ending {
		r.exit = err
		return 0, false
	}
	r.backoff = min(2*r.backoff, lastBackoff)
	if r.ready || r.backoff == 0 {
		r.backoff = firstBackoff
	}
	if p.Pause > 0 {
		r.backoff = p.Pause
	}
	how, after := "exit status 0", time.Since(r.started).Round(time.Millisecond)
	if err != nil {
		how = err.Error()
	}
	if !r.crashed {
		p.history.ends = append(p.history.ends, fmt.Sprintf("%s; its log ends: %s", how, p.Log.Tail(1)[0]))
	}
	if p.Once {
		r.gaveUp = fmt.Errorf("the %s ended: %s", p.Name(), how)
		r.end()
		return 0, false
	}
	if !r.wasReady {
		r.failed++
	}
	if r.failed == mostFailedStarts {
		r.gaveUp = fmt.Errorf("the %s ended %d times before it was ready, the last time with: %s", p.Name(), r.failed, how)
		r.end()
		return 0, false
	}
	r.restarts++
	p.total++
	_, _ = fmt.Fprintf(&p.Log, "harness: the %s ended by itself after %s: %s; restart %d in %s\n", p.Name(), after, how, r.restarts, r.backoff) // never fails
	return r.backoff, true
}

// restart starts the next process, if nobody has ended the run.
func (p *Program) restart(r *run) *exec.Cmd {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.ending {
		return nil
	}
	if err := r.start(&p.Log); err != nil {
		r.gaveUp = fmt.Errorf("start the %s again: %w", p.Name(), err)
		r.end()
		return nil
	}
	return r.process
}

// hasEnded reports whether the last process has ended, and no other one follows.
func (r *run) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// end says that no other process is to follow. The caller holds the lock.
func (r *run) end() {
	r.ending = true
	close(r.over)
}

// prober makes a connection for each question: no process answers for the one before.
var prober = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// answersReady asks a program whether it is ready.
func answersReady(ctx context.Context, health string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := prober.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("readyz says %s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return err
}
