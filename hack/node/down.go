package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/servingcert/servingcert/hack/process"
)

// Down stops the node in a directory, in any state, and removes everything that it created. It
// does nothing if there is no node. Options.Subnet is not needed if the node was ready.
func Down(ctx context.Context, o Options) error {
	if err := checkMachine(); err != nil {
		return err
	}
	l, err := newLayout(o.Dir, o.Subnet)
	if err != nil {
		return err
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.clear(ctx); err != nil {
		return fmt.Errorf("stop the node in %s: %w", l.Dir, err)
	}
	return nil
}

// clear stops all processes and removes everything, also of the subnet that a previous node in this
// directory had.
func (l layout) clear(ctx context.Context) error {
	former, err := l.former()
	if err != nil {
		return err
	}
	for _, l := range former {
		if err := l.stop(ctx); err != nil {
			return err
		}
	}
	if err := l.removeFromMachine(ctx); err != nil {
		return err
	}
	return l.removeDir()
}

// former returns this layout and, if the node had another subnet, its layout too.
func (l layout) former() ([]layout, error) {
	content, err := os.ReadFile(l.path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return []layout{l}, nil
	}
	if err != nil {
		return nil, err
	}
	layouts := []layout{l}
	var s state
	if json.Unmarshal(content, &s) == nil { // otherwise a crash truncated it
		if other, err := newLayout(l.Dir, s.Subnet); err == nil && other.Subnet != l.Subnet {
			layouts = append(layouts, other)
		}
	}
	return layouts, nil
}

// stop kills the holder, so that the kernel kills all processes of the node, and removes everything
// visible on the machine except files.
func (l layout) stop(ctx context.Context) error {
	if err := l.checkOwner(); err != nil {
		return err
	}
	err := process.Poll(ctx, endTimeout, pollInterval, func(context.Context) error {
		pids, err := running(l.Dir)
		if err != nil {
			return err
		}
		var errs []error
		for name, pid := range pids {
			errs = append(errs, kill(pid, l.Dir, name), fmt.Errorf("%s, process %d, is still running", name, pid))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	if err := l.disconnect(ctx); err != nil {
		return err
	}
	// Processes leave their cgroups a moment after they disappear from /proc.
	return process.Poll(ctx, endTimeout, pollInterval, func(context.Context) error { return l.removeCgroups() })
}

// removeDir removes the directory, unless a file system is mounted below it, whose files would be removed.
func (l layout) removeDir() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if below := mountsBelow(string(mounts), l.Dir); len(below) > 0 {
		return fmt.Errorf("%s is a mount point that is not the node's: unmount it", below[0])
	}
	return os.RemoveAll(l.Dir)
}

// lock prevents concurrent starts and stops of the node.
func (l layout) lock(ctx context.Context) (unlock func(), err error) {
	return lock(ctx, "@servingcert-node"+l.Dir, "the node in "+l.Dir)
}

// lock acquires the lock of a name: an abstract Unix socket, which needs no file and disappears
// with this process.
func lock(ctx context.Context, name, what string) (unlock func(), err error) {
	var listener net.Listener
	err = process.Poll(ctx, startTimeout, pollInterval, func(ctx context.Context) error {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("another process uses %s: %w", what, err)
	}
	return func() { _ = listener.Close() }, nil
}
