package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// Down ends the node in a directory and removes everything that it made, whatever
// state it is in. It is no error if there is none. Subnet need not be said if the
// node was up.
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
		return fmt.Errorf("end the node in %s: %w", l.Dir, err)
	}
	return nil
}

// clear ends what runs and removes what is there, of the subnet that the node in this
// directory has had too.
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

// former is this layout and, if the node had another subnet, that one too.
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
	if json.Unmarshal(content, &s) == nil { // else a crash has cut it off
		if other, err := newLayout(l.Dir, s.Subnet); err == nil && other.Subnet != l.Subnet {
			layouts = append(layouts, other)
		}
	}
	return layouts, nil
}

// stop ends all processes and removes what the machine sees of the node, but no file.
// When the holder dies the kernel kills every process of the node.
func (l layout) stop(ctx context.Context) error {
	if err := l.checkOwner(); err != nil {
		return err
	}
	err := poll(ctx, endTimeout, func(context.Context) error {
		pids, err := running(l.Dir)
		if err != nil {
			return err
		}
		var errs []error
		for name, pid := range pids {
			errs = append(errs, kill(pid, l.Dir, name), fmt.Errorf("%s, process %d, is still there", name, pid))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	if err := l.disconnect(ctx); err != nil {
		return err
	}
	// Their last members leave cgroups a moment after they are gone from /proc.
	return poll(ctx, endTimeout, func(context.Context) error { return l.removeCgroups() })
}

// removeDir removes the directory, unless something is mounted below it: what would be
// removed then is not the node's.
func (l layout) removeDir() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if below := mountsBelow(string(mounts), l.Dir); len(below) > 0 {
		return fmt.Errorf("%s is mounted, and not by the node: umount it", below[0])
	}
	return os.RemoveAll(l.Dir)
}

// lock keeps two from raising or ending the node at once.
func (l layout) lock(ctx context.Context) (unlock func(), err error) {
	return lock(ctx, "@servingcert-node"+l.Dir, "the node in "+l.Dir)
}

// lock waits until it is the only one with a lock of a name. It is a socket whose name
// is in no file system, so it needs no file and goes with this process.
func lock(ctx context.Context, name, what string) (unlock func(), err error) {
	var listener net.Listener
	err = poll(ctx, startTimeout, func(ctx context.Context) error {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("another process raises or ends %s: %w", what, err)
	}
	return func() { _ = listener.Close() }, nil
}
