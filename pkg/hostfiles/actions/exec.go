package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// environment is all that a program gets beside the name of the store.
var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}

// grace is how long the output of a program is waited for after it ended: what it has started may hold
// it open.
const grace = time.Second

// execute runs a program. At the end of ctx it is killed, and what it has started in its process group.
func execute(ctx context.Context, command []string, store string) error {
	c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the configuration says which
	c.Env = append([]string{"SERVINGCERT_STORE=" + store}, environment...)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = grace
	var output tail
	c.Stdout, c.Stderr = &output, &output
	err := c.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil // it ended well, and left a process behind
	}
	if err != nil {
		return fmt.Errorf("%w: %q", err, output.text())
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

const tailBytes = 160

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-tailBytes):]...)
	t.kept = append(t.kept[:0], t.kept[max(0, len(t.kept)-tailBytes):]...)
	return len(p), nil
}

func (t *tail) text() string { return string(bytes.TrimSpace(t.kept)) }
