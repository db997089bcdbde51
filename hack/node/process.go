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
)

// Every process of a node has these in its environment. A process id alone says
// nothing, as ids are given out again; the environment of a process cannot be changed
// from outside, containers do not inherit it, and it needs no file that a crash could
// lose.
const (
	envNode      = "SERVINGCERT_NODE"           // the node's directory
	envComponent = "SERVINGCERT_NODE_COMPONENT" // which of its programs
)

const (
	// pollInterval is how often something that is awaited is looked for.
	pollInterval = 50 * time.Millisecond
	// startTimeout bounds how long one component may take to answer.
	startTimeout = 90 * time.Second
	// execTimeout bounds how long a started program may take to be seen.
	execTimeout = 10 * time.Second
	// endTimeout bounds how long killed processes may take to be gone.
	endTimeout = 30 * time.Second
)

// component is a running program of a node.
type component struct {
	dir  string // the node's
	name string
	pid  int
}

// components are all that run on this machine, of every node.
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

// running returns the process ids of a node's components by name.
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

// otherNodes are the directories of the nodes on this machine but for the one in dir.
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

// identify says which component a process is; its name is empty if none. One that has
// ended but was not waited for has no environment any more and is none.
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

// ended reports whether a process has given back all that it held, such as the ports that
// it listened on. That is later than identify stops to know it: the kernel takes away the
// memory of a process first, and with it the environment, and then closes its files. A
// process whose files are closed is gone, or has one thread, which waits to be waited for.
func ended(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || len(threads) == 0 {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := bytes.Cut(stat, []byte(") ")) // the name before it may hold anything but this
	return len(threads) == 1 && bytes.HasPrefix(state, []byte("Z"))
}

// marks reads from a process' environment and command line, both as /proc has them,
// which component it is. Children of a component inherit its marks, so its program
// must be the component's.
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

// environment is what a component gets: the machine's variables and its marks.
func environment(dir, name string) []string {
	return append(controlplane.Inherited(), envNode+"="+dir, envComponent+"="+name)
}

// kill kills the component if it runs. The process is held before it is looked at,
// so that it cannot be another by then.
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

// start runs a component in the node's namespaces and returns when it is ready. It
// outlives this process: its parent is the holder.
func (n *Node) start(ctx context.Context, name string) error {
	pids, err := running(n.Dir)
	if err != nil {
		return err
	}
	switch {
	case pids[holder] == 0:
		return fmt.Errorf("start %s: %w in %s", name, errNotRunning, n.Dir)
	case pids[name] != 0:
		return fmt.Errorf("start %s: it is running already, process %d", name, pids[name])
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

// enter is a command that runs in the node's namespaces, which are those of pid.
func (n *Node) enter(ctx context.Context, pid int, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{
		"--target=" + strconv.Itoa(pid), "--net", "--mount", "--pid", "--",
	}, args...)...)
}

// awaitReady returns when ready returns nil, or with an error if the component ends
// or takes too long.
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
		if err := pause(ctx); err != nil {
			return n.failure(name, fmt.Errorf("not ready: %w; %w", err, notReady))
		}
	}
}

// pause waits for one poll interval.
func pause(ctx context.Context) error {
	select {
	case <-time.After(pollInterval):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// poll waits until check returns nil, or says at the end of the time why it does not.
func poll(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ended := pause(ctx); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
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
