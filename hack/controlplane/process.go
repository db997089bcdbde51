package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// pollInterval is how often a starting component is asked whether it is ready.
const pollInterval = 50 * time.Millisecond

// tailLines is how much of its log the error of a failed component shows.
const tailLines = 15

// errAddressInUse is wrapped by the error of a component that ended because
// another process had its port.
var errAddressInUse = errors.New("address already in use")

// component is one that runs. A nil *component is one that was never started.
type component struct {
	name    string
	path    string
	args    []string
	dir     string
	logFile string
	outlive bool

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
	told bool          // why it ended is known: it was killed, or an error has said so
}

// start runs it and returns when ready returns nil. If the process ends
// before, or is not ready in startTimeout, it is killed and the error shows the
// end of its log.
func (p *component) start(ctx context.Context, ready func(context.Context) error) error {
	if err := p.exec(); err != nil {
		return fmt.Errorf("run %s: %w", p.path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		notReady := ready(ctx)
		if notReady == nil {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-p.done:
			return p.failure(fmt.Errorf("ended before it was ready: %s", p.cmd.ProcessState))
		case <-ctx.Done():
			p.kill()
			return p.failure(fmt.Errorf("not ready: %w; %w", context.Cause(ctx), notReady))
		}
	}
}

// exec starts the process with its output appended to its log file.
func (p *component) exec() error {
	if err := os.MkdirAll(filepath.Dir(p.logFile), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Dir = p.dir
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = procAttr(p.outlive)
	p.done, p.told = make(chan struct{}), false
	started := make(chan error)
	go func() {
		// The kernel's "kill it when its parent dies" means the parent's thread, not
		// its process: the thread that forks has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in ProcessState
		}
	}()
	return <-started
}

// envGOGC is the GOGC of the components, for those who would rather spend memory than CPU on
// them: make test does, and what measures them does not. They spend no more than memoryLimit, as
// far as they can do with it: of four API servers at once one took 2.8 GiB.
const (
	envGOGC     = "SERVINGCERT_CONTROLPLANE_GOGC"
	memoryLimit = "768MiB"
)

// Inherited is the environment without proxy settings: kube-apiserver would dial webhooks through
// them.
func Inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasSuffix(strings.ToLower(name), "_proxy")
	})
}

// environment is that of components.
func environment() []string {
	inherited := Inherited()
	if percent := os.Getenv(envGOGC); percent != "" {
		inherited = append(inherited, "GOGC="+percent, "GOMEMLIMIT="+memoryLimit) // of a name that is there twice the last counts
	}
	return inherited
}

func (p *component) running() bool {
	if p == nil || p.cmd == nil || p.cmd.Process == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process at once and waits until it is gone. There is nothing to
// save: etcd's data is about to be removed, and a kube-apiserver that is to come
// back keeps its state in etcd.
func (p *component) kill() {
	if !p.running() {
		return
	}
	p.told = p.cmd.Process.Kill() == nil // otherwise it has just ended by itself
	<-p.done
}

// endedAlone is an error, once, if the process ended and nobody has killed it: whatever used it
// has failed, and only its log says why.
func (p *component) endedAlone() error {
	if p == nil || p.done == nil || p.told || p.running() {
		return nil
	}
	return p.failure(fmt.Errorf("ended by itself: %s", p.cmd.ProcessState))
}

// arg returns the argument that starts with prefix, or "".
func (p *component) arg(prefix string) string {
	i := slices.IndexFunc(p.args, func(a string) bool { return strings.HasPrefix(a, prefix) })
	if i < 0 {
		return ""
	}
	return p.args[i]
}

func (p *component) failure(cause error) error {
	p.told = true
	tail := LogTail(p.logFile, tailLines)
	if strings.Contains(tail, "address already in use") {
		cause = fmt.Errorf("%w: %w", cause, errAddressInUse)
	}
	return fmt.Errorf("%s %w; the end of its log:\n%s", p.name, cause, tail)
}

// LogTail returns the last n lines of a file, each indented by two spaces, or the first n of what
// Go's runtime wrote when the process crashed: all goroutines follow them.
func LogTail(file string, n int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return "  (empty)"
	}
	lines := strings.Split(string(data), "\n")
	crash := slices.IndexFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	})
	if crash >= 0 {
		lines = lines[crash:min(len(lines), crash+n)]
	}
	lines = lines[max(0, len(lines)-n):]
	return "  " + strings.Join(lines, "\n  ")
}
