// Package store keeps a certificate, its key and the CA bundle on a host, in a directory of its own:
//
//	NAME/1a2b3c4d/{tls.crt,tls.key,ca.crt}   a generation, by the leaf that it holds
//	NAME/current -> 1a2b3c4d                 switched by one rename
//	NAME/previous -> 99aabbcc                what was current before
//	NAME/.state.json, NAME/.lock             where the store is, and whose it is
//
// A store with a path of its own has the current generation there, too: a directory that is exchanged
// as a whole, or the file of a bundle. Whatever happens between two of its system calls, current is the
// generation before or the one after, complete and synced.
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
	// marker is in a directory that a store has exchanged.
	marker = ".hostsync"
	// keptInfix is in the names of originals, before a stamp.
	keptInfix = ".hostsync-original-"
	// generations is how many are kept.
	generations = 3
)

var generation = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{8})?$`)

// Store is one store of a host. It is not for use by several goroutines.
type Store struct {
	// State is what is remembered. Save writes it down.
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

// WithHook has a function called before each step that changes something; its error fails the step.
func WithHook(hook func(op, name string) error) Option { return func(s *Store) { s.hook = hook } }

// Open opens the store below the directory, and makes it if it is not there. A file at its place is
// kept under another name. Nothing but Lock may be called before Lock has returned.
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

// Exists reports whether a directory is a store, or what is left of one that has not held anything. In
// any other directory, names that are like those of a store are not its own.
func Exists(root, name string) bool {
	entries, err := os.ReadDir(filepath.Join(root, name))
	foreign := func(e fs.DirEntry) bool { return e.Name() != lockFile && !strings.HasPrefix(e.Name(), tmpPrefix) }
	state := func(e fs.DirEntry) bool { return e.Name() == stateFile }
	return err == nil && (slices.ContainsFunc(entries, state) || !slices.ContainsFunc(entries, foreign))
}

// makeHome makes the directory of the store.
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
	return nil // openDir looks whose it is
}

// replaceFile puts a directory in the place of a file, with a state in it that names the file.
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

// sweepKept removes what a process left that was killed in replaceFile: directories with a state.
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

// ErrLocked is what Lock returns if it does not wait.
var ErrLocked = errors.New("another process keeps this store: it holds the lock of its directory")

// Lock takes the store for this process, until Close. waiting, if it is not nil, is called if another
// has it, and Lock waits then; if it is nil, Lock returns ErrLocked.
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
		// Whoever had it may have removed the store.
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

// flock waits for a lock. If ctx ends before, a goroutine goes on to wait: the process is about to end.
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

// reopen makes the directory of the store again.
func (s *Store) reopen() error {
	again, err := Open(s.root, s.spec, s.clock, WithHook(s.hook))
	if err != nil {
		return err
	}
	s.home.close()
	s.home = again.home
	return nil
}

// begin reads the state, and removes what a process left that was killed.
func (s *Store) begin() error {
	data, err := s.home.read(stateFile)
	if err != nil {
		return err
	}
	// A state that cannot be read is begun anew: what is on the host counts.
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

// Close gives the store up.
func (s *Store) Close() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
	s.home.close()
}

// Save writes the state down.
func (s *Store) Save() error {
	return s.replace(s.home, stateFile, s.State.Encode(), access{0o600, -1, -1})
}

// replace writes a file of a directory, as a whole.
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
