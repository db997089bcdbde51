package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/pkg/hostfiles/hostpath"
)

// dir is a directory in which files are replaced atomically: readers, also after a loss of power, find the
// old files or the new ones. Its methods call hook, if it is set, before each change, so that a test can
// stop there. Links cannot lead out of the directory.
type dir struct {
	root *os.Root
	hook func(op, name string) error
}

// openDir opens a directory whose path only root and the effective user can change.
func openDir(name string, hook func(op, name string) error) (*dir, error) {
	opened, err := hostpath.OpenOwn(name, nil)
	if err != nil {
		return nil, err
	}
	return &dir{opened.Root, hook}, nil
}

// makeDirs creates a directory and its missing parents. It syncs each parent, because a loss of power would otherwise
// lose the new directory with all its content.
func makeDirs(name string, hook func(op, name string) error) error {
	opened, err := hostpath.OpenOwn(name, func(above *os.Root, base string) error {
		d := &dir{above, hook}
		if err := d.mkdir(base); err != nil {
			return err
		}
		return d.sync(".")
	})
	if err == nil {
		err = opened.Close()
	}
	return err
}

func (d *dir) close() { _ = d.root.Close() }

func (d *dir) step(op, name string) error {
	if d.hook == nil {
		return nil
	}
	return d.hook(op, path.Join(d.root.Name(), name))
}

// access has mode and owner of a file; a uid or gid of -1 is not set.
type access struct {
	mode     fs.FileMode
	uid, gid int
}

// mkdir creates a directory with mode 0755.
func (d *dir) mkdir(name string) error {
	if err := d.step("mkdir", name); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return d.root.Chmod(name, 0o755) // regardless of the umask
}

// write creates a file, and syncs it. The file must not exist.
func (d *dir) write(name string, data []byte, a access) (err error) {
	if err := d.step("create", name); err != nil {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if a.uid >= 0 || a.gid >= 0 {
		if err := f.Chown(a.uid, a.gid); err != nil {
			return err
		}
	}
	if err := f.Chmod(a.mode); err != nil {
		return err
	}
	if err := d.step("write", name); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := d.step("sync", name); err != nil {
		return err
	}
	return f.Sync()
}

// read reads a regular file of at most maxFile bytes. It returns nil if the file does not exist.
func (d *dir) read(name string) ([]byte, error) {
	f, _, err := hostpath.OpenIn(d.root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: is larger than %d bytes", f.Name(), maxFile)
	}
	return data, err
}

// maxFile is the maximum size of a file, in bytes.
const maxFile = 1 << 20

// sync syncs a directory, so that changes to its entries are durable.
func (d *dir) sync(name string) error {
	if err := d.step("sync", name); err != nil {
		return err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (d *dir) symlink(target, name string) error {
	if err := d.step("symlink", name); err != nil {
		return err
	}
	return d.root.Symlink(target, name)
}

func (d *dir) rename(from, to string) error {
	if err := d.step("rename", from); err != nil {
		return err
	}
	return d.root.Rename(from, to)
}

// exchange atomically exchanges two entries of the directory itself.
func (d *dir) exchange(a, b string) error {
	if err := d.step("exchange", a); err != nil {
		return err
	}
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("exchange %s and %s: %w", path.Join(d.root.Name(), a), b, err)
	}
	return nil
}

func (d *dir) remove(name string) error {
	if err := d.step("remove", name); err != nil {
		return err
	}
	return d.root.RemoveAll(name)
}

// lstat returns nil if the name does not exist.
func (d *dir) lstat(name string) (fs.FileInfo, error) {
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// setAccess sets mode and owner of an existing file.
func (d *dir) setAccess(name string, a access) error {
	if err := d.step("access", name); err != nil {
		return err
	}
	f, _, err := hostpath.OpenIn(d.root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if a.uid >= 0 || a.gid >= 0 {
		if err := f.Chown(a.uid, a.gid); err != nil {
			return err
		}
	}
	return f.Chmod(a.mode)
}

// differs describes how the mode or owner of a file differs from a; "" if they do not.
func (a access) differs(info fs.FileInfo) string {
	if info.Mode().Perm() != a.mode {
		return fmt.Sprintf("%s has mode %#o: must be %#o", info.Name(), info.Mode().Perm(), a.mode)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && (a.uid >= 0 && int(s.Uid) != a.uid || a.gid >= 0 && int(s.Gid) != a.gid) {
		return fmt.Sprintf("%s has owner %d:%d: must be %d:%d", info.Name(), s.Uid, s.Gid, a.uid, a.gid)
	}
	return ""
}
