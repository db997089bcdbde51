package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// environment is the environment of a program, except for the name of the store.
var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}

// grace is the time to wait for a program's output after it has ended: its children may hold the pipe open.
const grace = time.Second

// execute runs a program. When ctx ends, it kills the program's process group, and its descendants in other groups
// and sessions. A process whose parent has ended is no longer a descendant, and continues to run.
func execute(ctx context.Context, command []string, store string) error {
	c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the configuration names the program
	c.Env = append([]string{"SERVINGCERT_STORE=" + store}, environment...)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error {
		below := descendants(c.Process.Pid)
		err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL) // may fail: the group was killed above
		}
		return err
	}
	c.WaitDelay = grace
	var output tail
	c.Stdout, c.Stderr = &output, &output
	err := c.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil // it succeeded, and left a process behind
	}
	if err != nil {
		return fmt.Errorf("%w: %q", err, output.text())
	}
	return nil
}

// descendants returns the children of a process, their children and so on.
func descendants(pid int) (below []int) {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, name := range stats {
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if fields, err := statOf(child); err == nil {
			parent, _ := strconv.Atoi(fields[parentField])
			children[parent] = append(children[parent], child)
		}
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		below = append(below, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return below
}

// tail keeps the last bytes that were written to it.
type tail struct{ kept []byte }

const tailBytes = 160

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-tailBytes):]...)
	t.kept = append(t.kept[:0], t.kept[max(0, len(t.kept)-tailBytes):]...)
	return len(p), nil
}

func (t *tail) text() string { return string(bytes.TrimSpace(t.kept)) }
