// Package store keeps a certificate, its key and the CA bundle on a host, in a directory of its own:
//
//	NAME/1a2b3c4d/{tls.crt,tls.key,ca.crt}   a generation, named after its leaf
//	NAME/current -> 1a2b3c4d                 switched by one rename
//	NAME/previous -> 99aabbcc                the previous value of current
//	NAME/.state.json, NAME/.lock             the state, and the lock of the process that uses the store
//
// A store with a path has the current generation there too: a directory that is exchanged as a whole, or the
// file of a bundle. If the process is killed or the power is lost at any point, current is the old generation
// or the new one, complete and synced.
package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// Names in the directory of a store.
const (
	currentLink  = "current"
	previousLink = "previous"
	stateFile    = ".state.json"
	lockFile     = ".lock"
	tmpPrefix    = ".tmp-"
	// marker is a file in each directory that a store has published at its path.
	marker = ".hostsync"
	// keptInfix is in the names of originals, before a timestamp.
	keptInfix = ".hostsync-original-"
	// generations is the number of generations that prune keeps.
	generations = 3
)

var generation = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{8})?$`)

// Store is one store of a host. It is not safe for concurrent use.
type Store struct {
	// State is persisted by Save.
	State hostfiles.State

	spec  *hostfiles.Store
	root  string // the directory of all stores
	home  *dir
	lock  *os.File
	clock func() time.Time
	hook  func(op, name string) error
}

// Option changes a Store, for tests.
type Option func(*Store)

// WithHook sets a function that is called before each change; its error fails the change.
func WithHook(hook func(op, name string) error) Option { return func(s *Store) { s.hook = hook } }

// Open opens the store below the directory root, and creates it if it does not exist. A file of its name is
// renamed, and restored by Remove. Only Lock and Close may be called before Lock has succeeded.
func Open(root string, spec *hostfiles.Store, clock func() time.Time, options ...Option) (*Store, error) {
	s := &Store{spec: spec, root: root, clock: clock}
	for _, option := range options {
		option(s)
	}
	if err := makeDirs(root, s.hook); err != nil {
		return nil, err
	}
	parent, err := openDir(root, s.hook)
	if err != nil {
		return nil, err
	}
	defer parent.close()
	if err := s.makeHome(parent); err != nil {
		return nil, err
	}
	s.home, err = openDir(filepath.Join(root, spec.Name), s.hook)
	return s, err
}

// Exists reports whether a directory is a store, or the rest of one that was never filled. Remove must not be
// called for any other directory, whose entries may have names like those of a store.
func Exists(root, name string) bool {
	entries, err := os.ReadDir(filepath.Join(root, name))
	foreign := func(e fs.DirEntry) bool { return e.Name() != lockFile && !strings.HasPrefix(e.Name(), tmpPrefix) }
	state := func(e fs.DirEntry) bool { return e.Name() == stateFile }
	return err == nil && (slices.ContainsFunc(entries, state) || !slices.ContainsFunc(entries, foreign))
}

// makeHome creates the directory of the store.
func (s *Store) makeHome(parent *dir) error {
	name := s.spec.Name
	info, err := parent.lstat(name)
	switch {
	case err != nil:
		return err
	case info == nil:
		if err := parent.mkdir(name); err != nil {
			return err
		}
		return parent.sync(".")
	case !info.IsDir() && info.Mode()&fs.ModeSymlink == 0:
		return s.replaceFile(parent, name)
	}
	return nil // openDir checks the owner
}

// replaceFile replaces a file with a directory whose state lists the file as an original.
func (s *Store) replaceFile(parent *dir, name string) error {
	if err := s.sweepKept(parent, name); err != nil {
		return err
	}
	kept := s.keptName(name)
	if err := parent.mkdir(kept); err != nil {
		return err
	}
	state := hostfiles.State{Version: 1, Originals: []hostfiles.Original{{Path: s.at(name), Kept: kept}}}
	if err := parent.write(filepath.Join(kept, stateFile), state.Encode(), access{0o600, -1, -1}); err != nil {
		return err
	}
	if err := parent.sync(kept); err != nil {
		return err
	}
	if err := parent.exchange(kept, name); err != nil {
		return err
	}
	return parent.sync(".")
}

// sweepKept removes the directories that a crash in replaceFile left. They contain a state.
func (*Store) sweepKept(parent *dir, name string) error {
	entries, err := fs.ReadDir(parent.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), name+keptInfix) {
			continue
		}
		if data, err := parent.read(filepath.Join(e.Name(), stateFile)); err == nil && data != nil {
			if err := parent.remove(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) at(name string) string { return filepath.Join(s.root, name) }

func (s *Store) keptName(name string) string {
	return name + keptInfix + s.clock().UTC().Format("20060102T150405.000Z")
}

// ErrLocked is returned by Lock if it does not wait.
var ErrLocked = errors.New("another process has locked this store")

// Lock locks the store for this process, until Close. If another process has locked it, Lock calls waiting and
// waits. If waiting is nil, it returns ErrLocked.
func (s *Store) Lock(ctx context.Context, waiting func()) error {
	for s.lock == nil {
		f, err := s.home.root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			if waiting == nil {
				_ = f.Close()
				return ErrLocked
			}
			waiting()
			err = flock(ctx, f)
		}
		if err != nil {
			_ = f.Close()
			return err
		}
		// The process that had the lock may have removed the store.
		if mine, err := f.Stat(); err == nil {
			if there, err := os.Lstat(filepath.Join(s.at(s.spec.Name), lockFile)); err == nil && os.SameFile(mine, there) {
				s.lock = f
				continue
			}
		}
		_ = f.Close()
		if err := s.reopen(); err != nil {
			return err
		}
	}
	return s.begin()
}

// flock waits for a lock. If ctx ends first, a goroutine continues to wait until the process ends.
func flock(ctx context.Context, f *os.File) error {
	locked := make(chan error, 1)
	fd := int(f.Fd())
	go func() {
		for {
			if err := unix.Flock(fd, unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
				locked <- err
				return
			}
		}
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-locked:
		return err
	}
}

// reopen creates the directory of the store again.
func (s *Store) reopen() error {
	again, err := Open(s.root, s.spec, s.clock, WithHook(s.hook))
	if err != nil {
		return err
	}
	s.home.close()
	s.home = again.home
	return nil
}

// begin reads the state, and removes the temporary files that a crash left.
func (s *Store) begin() error {
	data, err := s.home.read(stateFile)
	if err != nil {
		return err
	}
	// An unreadable state is replaced with an empty one: decisions are made from the installed files.
	s.State, _ = hostfiles.ParseState(data)
	entries, err := fs.ReadDir(s.home.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tmpPrefix) {
			if err := s.home.remove(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close releases the lock and closes the store.
func (s *Store) Close() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
	s.home.close()
}

// Save writes the state file.
func (s *Store) Save() error {
	return s.replace(s.home, stateFile, s.State.Encode(), access{0o600, -1, -1})
}

// replace replaces a file of a directory atomically.
func (s *Store) replace(d *dir, name string, data []byte, a access) error {
	tmp := tmpPrefix + name
	if err := d.remove(tmp); err != nil {
		return err
	}
	if err := d.write(tmp, data, a); err != nil {
		return err
	}
	if err := d.rename(tmp, name); err != nil {
		return err
	}
	return d.sync(".")
}
