package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
)

// Variables in the environment of every process of a node, which identify it. Process IDs are reused,
// and a crash could lose a file; the environment cannot be changed from outside, and containers do not
// inherit it.
const (
	envNode      = "SERVINGCERT_NODE"           // the node's directory
	envComponent = "SERVINGCERT_NODE_COMPONENT" // the component's name
)

const (
	// pollInterval is the interval of polling.
	pollInterval = 50 * time.Millisecond
	// startTimeout is the time within which a component must be ready.
	startTimeout = process.Soon
	// execTimeout is the time within which a started program must be visible in /proc.
	execTimeout = 10 * time.Second
	// endTimeout is the time within which killed processes must have exited.
	endTimeout = 30 * time.Second
)

// component is a running program of a node.
type component struct {
	dir  string // the node's
	name string
	pid  int
}

// components returns the running components of all nodes on this machine.
func components() ([]component, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []component
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if c := identify(pid); c.name != "" {
				found = append(found, c)
			}
		}
	}
	return found, nil
}

// running returns the process IDs of a node's components by name.
func running(dir string) (map[string]int, error) {
	all, err := components()
	pids := map[string]int{}
	for _, c := range all {
		if c.dir == dir {
			pids[c.name] = c.pid
		}
	}
	return pids, err
}

// otherNodes returns the directories of the nodes on this machine except the one in dir.
func otherNodes(dir string) ([]string, error) {
	all, err := components()
	var others []string
	for _, c := range all {
		if c.name == holder && c.dir != dir {
			others = append(others, c.dir)
		}
	}
	return others, err
}

// identify returns the component that a process is, or one without a name. A zombie, which has no
// environment, is none.
func identify(pid int) component {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return component{}
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return component{}
	}
	c := marks(environ, cmdline)
	c.pid = pid
	return c
}

// ended reports whether a process has released all resources, such as its ports. identify stops
// finding it earlier: the kernel first frees the memory of a process, including its environment, and
// then closes its files. Afterwards the process does not exist, or is a zombie with one thread.
func ended(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || len(threads) == 0 {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := bytes.Cut(stat, []byte(") ")) // the end of the name
	return len(threads) == 1 && bytes.HasPrefix(state, []byte("Z"))
}

// marks returns the component of a process with this environment and command line, in the format of
// /proc. Children of a component inherit its variables, so the program must match too.
func marks(environ, cmdline []byte) component {
	var c component
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		switch key, value, _ := strings.Cut(string(kv), "="); key {
		case envNode:
			c.dir = value
		case envComponent:
			c.name = value
		}
	}
	program, _, _ := bytes.Cut(cmdline, []byte{0})
	if c.dir == "" || filepath.Base(string(program)) != c.name {
		return component{}
	}
	return c
}

// environment returns the environment of a component, which identifies it.
func environment(dir, name string) []string {
	return append(process.Inherited(), envNode+"="+dir, envComponent+"="+name)
}

// kill kills the component if it runs. It opens the process before it identifies it, as the process
// ID could be reused.
func kill(pid int, dir, name string) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	if c := identify(pid); c.dir != dir || c.name != name {
		return nil
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s, process %d: %w", name, pid, err)
	}
	return nil
}

// start runs a component in the node's namespaces and returns when it is ready. Its parent is the
// holder, so that it outlives this process.
func (n *Node) start(ctx context.Context, name string) error {
	pids, err := running(n.Dir)
	if err != nil {
		return err
	}
	switch {
	case pids[holder] == 0:
		return fmt.Errorf("start %s: %w in %s", name, errNotRunning, n.Dir)
	case pids[name] != 0:
		return fmt.Errorf("start %s: it is already running, process %d", name, pids[name])
	}
	c := n.programs()[name]
	log, err := n.openLog(name)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"setsid", "--fork", c.program}, c.args...)
	cmd := n.enter(ctx, pids[holder], args...)
	cmd.Env = environment(n.Dir, name)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return n.failure(name, err)
	}
	return n.awaitReady(ctx, name, c.ready)
}

// enter returns a command that runs in the node's namespaces, which are those of pid.
func (n *Node) enter(ctx context.Context, pid int, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{
		"--target=" + strconv.Itoa(pid), "--net", "--mount", "--pid", "--",
	}, args...)...)
}

// awaitReady waits until ready returns nil. It returns an error if the component exits or takes too long.
func (n *Node) awaitReady(ctx context.Context, name string, ready func(context.Context) error) error {
	started := time.Now()
	seen := false
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		pids, err := running(n.Dir)
		if err != nil {
			return err
		}
		alive := pids[name] != 0
		if seen && !alive || !seen && time.Since(started) > execTimeout {
			return n.failure(name, errors.New("ended before it was ready"))
		}
		seen = alive
		var notReady error
		if seen {
			if notReady = ready(ctx); notReady == nil {
				return nil
			}
		}
		if !process.Sleep(ctx, pollInterval) {
			return n.failure(name, fmt.Errorf("not ready: %w; %w", context.Cause(ctx), notReady))
		}
	}
}

func (n *Node) openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(n.LogDir(), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(n.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

func (n *Node) logFile(name string) string { return filepath.Join(n.LogDir(), name+".log") }

func (n *Node) failure(name string, cause error) error {
	return fmt.Errorf("%s: %w; the end of %s:\n%s", name, cause, n.logFile(name), controlplane.LogTail(n.logFile(name), 15))
}
