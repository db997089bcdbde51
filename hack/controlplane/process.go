package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

// pollInterval is how often a starting component is checked for readiness.
const pollInterval = 50 * time.Millisecond

// tailLines is the number of lines of its log in the error of a failed component.
const tailLines = 15

// errAddressInUse is wrapped by the error of a component that exited because
// another process had its port.
var errAddressInUse = errors.New("address already in use")

// component is a program of the control plane. A nil *component was never started.
type component struct {
	process.Program
	reported bool // its failure was returned
}

func (cp *ControlPlane) newComponent(name string, args ...string) *component {
	c := &component{}
	c.Path, c.Args, c.Dir, c.Env = cp.binaries[name], args, cp.dir, environment()
	c.Log.File = filepath.Join(cp.LogDir(), name+".log")
	c.NoHealth, c.Once = true, true
	return c
}

// start runs the component and returns when ready returns nil. If the component exits
// before that, or is not ready within [process.Soon], it is killed and the error contains
// the end of its log.
func (c *component) start(ctx context.Context, ready func(context.Context) error) error {
	if err := c.Run(); err != nil {
		return err
	}
	c.reported = false
	ctx, cancel := context.WithTimeout(ctx, process.Soon)
	defer cancel()
	for {
		notReady := ready(ctx)
		if notReady == nil {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-c.Ended():
			return c.failure()
		case <-ctx.Done():
			c.Kill()
			return c.withLog(fmt.Errorf("the %s is not ready: %w; %w", c.Name(), context.Cause(ctx), notReady))
		}
	}
}

// The GOGC and GOMEMLIMIT of the components if envGOGC is set, as by make test, to use less CPU time
// and more memory: without the limit, one of four API servers used 2.8 GiB.
const (
	envGOGC     = "SERVINGCERT_CONTROLPLANE_GOGC"
	memoryLimit = "768MiB"
)

func environment() []string {
	if percent := os.Getenv(envGOGC); percent != "" {
		return []string{"GOGC=" + percent, "GOMEMLIMIT=" + memoryLimit}
	}
	return nil
}

func (c *component) running() bool { return c != nil && c.PID() != 0 }

// kill kills the component at once. Nothing is lost: etcd's data is about to be removed,
// and kube-apiserver keeps its state in etcd.
func (c *component) kill() {
	if c != nil {
		c.Kill()
	}
}

// failure returns an error, once, if the component exited without being killed: that explains
// why its clients failed.
func (c *component) failure() error {
	if c == nil || c.reported {
		return nil
	}
	if err := c.Failure(); err != nil {
		c.reported = true
		return c.withLog(err)
	}
	return nil
}

// withLog adds the end of the component's log to an error.
func (c *component) withLog(cause error) error {
	tail := LogTail(c.Log.File, tailLines)
	if strings.Contains(tail, "address already in use") {
		cause = fmt.Errorf("%w: %w", cause, errAddressInUse)
	}
	return fmt.Errorf("%w; the end of its log:\n%s", cause, tail)
}

// LogTail returns the last n lines of a file, each indented by two spaces. If the Go process
// crashed, it returns the first n lines of the runtime's output, before the goroutines' stacks.
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
