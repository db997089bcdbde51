package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// grace is how long a component has to end by itself: a leader gives its Lease
// back.
const grace = 5 * time.Second

// component is one process that the demo started.
type component struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
}

// endedError is why the demo ends when a component does.
type endedError struct {
	component string
	how       *os.ProcessState
}

func (e *endedError) Error() string { return e.component + " ended: " + e.how.String() }

// start runs a program as a component, its output in its log file. If it ends
// before the demo stops it, that ends the demo.
func (d *demo) start(name, path string, args, env []string) (*component, error) {
	log, err := os.OpenFile(d.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	c := &component{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = d.dir, env
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = procAttr(syscall.SIGKILL)
	started := make(chan error)
	go func() {
		// The kernel's "kill it when its parent dies" means the parent's thread, not
		// its process: the thread that forks has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = c.cmd.Wait() // how it ended is in ProcessState
		if !d.stopping.Load() {
			d.cancel(&endedError{name, c.cmd.ProcessState})
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	d.components = append(d.components, c)
	return c, nil
}

func (c *component) pid() int { return c.cmd.Process.Pid }

// stop ends the process and waits until it is gone. None of them has children.
func (c *component) stop() error {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := c.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", c.name, err)
		}
		select {
		case <-c.done:
			return nil
		case <-time.After(grace):
		}
	}
	return fmt.Errorf("stop %s: process %d is still there", c.name, c.pid())
}
