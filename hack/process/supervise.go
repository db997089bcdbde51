package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// A program that exits is restarted after firstBackoff, which doubles each time up to
// lastBackoff: as in a kubelet, but shorter. It is reset once a process was ready. After
// mostFailedStarts exits before any process was ready, the program is not restarted.
const (
	firstBackoff     = 100 * time.Millisecond
	lastBackoff      = 5 * time.Second
	mostFailedStarts = 3
)

// run is the time of a program from Run to Kill or Stop, with its successive processes.
type run struct {
	path, health string
	args, env    []string
	dir          string
	noHealth     bool
	over         chan struct{} // closed once no further process is to start
	done         chan struct{} // closed once the last process has exited

	ending   bool      // over is closed
	process  *exec.Cmd // nil between two processes
	started  time.Time // of the last process
	restarts int
	backoff  time.Duration // before the last restart
	crashed  bool          // Crash has killed the last process
	ready    bool          // the last process has been ready
	wasReady bool          // any process has been ready
	failed   int           // processes that exited before any was ready
	answer   error         // the last answer of /readyz, if it was not ready
	exit     error         // of the process that was killed or stopped
	gaveUp   error         // why the program was not restarted
}

// start starts the next process of the run. The caller holds the lock.
func (r *run) start(log *Log) error {
	out, closeOut, err := log.open()
	if err != nil {
		return err
	}
	defer closeOut() // the process has its own descriptor
	cmd := exec.Command(r.path, r.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = r.dir, r.env, out, out, attributes()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.process, r.started, r.crashed = cmd, time.Now(), false
	r.ready, r.wasReady, r.answer = r.noHealth, r.wasReady || r.noHealth, errors.New("not asked yet")
	return nil
}

// supervise starts the processes of a run, one after the other. started gets the result of the first
// start, during which the caller holds the lock.
func (p *Program) supervise(r *run, started chan<- error) {
	runtime.LockOSThread() // see attributes
	defer runtime.UnlockOSThread()
	defer close(r.done)
	err := r.start(&p.Log)
	process := r.process
	started <- err
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

// probe polls /readyz of the current process until it is ready or has exited.
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

// ended records that the current process has exited, and returns whether and after what time
// another one follows.
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
	_, _ = fmt.Fprintf(&p.Log, "harness: the %s ended after %s: %s; restart %d in %s\n", p.Name(), after, how, r.restarts, r.backoff) // never fails
	return r.backoff, true
}

// restart starts the next process, unless the run was ended.
func (p *Program) restart(r *run) *exec.Cmd {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.ending {
		return nil
	}
	if err := r.start(&p.Log); err != nil {
		r.gaveUp = fmt.Errorf("restart the %s: %w", p.Name(), err)
		r.end()
		return nil
	}
	return r.process
}

// hasEnded reports whether the last process has exited.
func (r *run) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// end prevents further processes. The caller holds the lock.
func (r *run) end() {
	r.ending = true
	close(r.over)
}

// prober uses a new connection for each request, so that the current process answers.
var prober = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// answersReady returns nil if /readyz reports that the program is ready.
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
		err = fmt.Errorf("/readyz: %s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return err
}
