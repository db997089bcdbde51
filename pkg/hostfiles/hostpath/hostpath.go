// Package hostpath opens paths of a host for a process that runs as root, so that no other user decides where they
// lead: it walks them from the root of the file system, follows no symbolic link, and checks the owner of each
// directory. systemd's chase() with CHASE_SAFE and OpenSSH's StrictModes require the same.
package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Dir is an open directory, with the users who can change its content.
type Dir struct {
	*os.Root
	// Writers are the users, other than root and the effective user, who own a directory of the path.
	Writers []uint32
}

// Open opens the directory at an absolute path. Each directory above it must be writable only by its owner, or have
// the sticky bit, as /tmp has: there, other users can create files, but not remove or rename any. mkdir creates a
// missing directory; if it is nil, Open returns an error that wraps fs.ErrNotExist.
func Open(name string, mkdir func(above *os.Root, base string) error) (*Dir, error) {
	d, err := walk(name, checkWriters, mkdir)
	if err != nil {
		return nil, err
	}
	info, err := d.Stat(".")
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		err = fmt.Errorf("%s: other users can create files in it: must be writable only by its owner", name)
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// OpenWritable opens the directory at an absolute path, whoever can write to it and to those above it. Kubernetes makes
// volumes that all users can write to. Such a user decides what the directory contains, but no link makes it another one.
func OpenWritable(name string) (*Dir, error) { return walk(name, checkDir, nil) }

// OpenOwn is Open for a directory that only root and the effective user can change.
func OpenOwn(name string, mkdir func(above *os.Root, base string) error) (*Dir, error) {
	d, err := Open(name, mkdir)
	if err == nil && len(d.Writers) > 0 {
		_ = d.Close()
		return nil, fmt.Errorf("%s: user %d owns it or a directory above it: must belong to root", name, d.Writers[0])
	}
	return d, err
}

// walk opens each directory of the path in the one above it. check returns why one is refused.
func walk(name string, check func(full string, info fs.FileInfo) error, mkdir func(above *os.Root, base string) error) (*Dir, error) {
	if !filepath.IsAbs(name) {
		return nil, fmt.Errorf("%s: must be an absolute path", name)
	}
	root, err := os.OpenRoot("/")
	if err != nil {
		return nil, err
	}
	d := &Dir{Root: root}
	for base := range strings.SplitSeq(strings.Trim(filepath.Clean(name), "/"), "/") {
		if base == "" {
			continue // the root itself
		}
		if err := d.enter(base, check, mkdir); err != nil {
			_ = d.Close()
			return nil, err
		}
	}
	return d, nil
}

// enter opens a directory in this one and continues from there. It compares the directory before and after opening
// it, because the owner of this one may replace it in between.
func (d *Dir) enter(base string, check func(full string, info fs.FileInfo) error, mkdir func(above *os.Root, base string) error) error {
	full := filepath.Join(d.Name(), base)
	info, err := d.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) && mkdir != nil {
		if err := mkdir(d.Root, base); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err = d.Lstat(base)
	}
	if err != nil {
		return err
	}
	if err := check(full, info); err != nil {
		return err
	}
	next, err := d.OpenRoot(base)
	if err != nil {
		return err
	}
	if err := sameFile(full, info, func() (fs.FileInfo, error) { return next.Stat(".") }); err != nil {
		_ = next.Close()
		return err
	}
	_ = d.Close()
	d.Root = next
	if owner := Owner(info); !trusted(owner) && !slices.Contains(d.Writers, owner) {
		d.Writers = append(d.Writers, owner)
	}
	return nil
}

func checkDir(full string, info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, _ := os.Readlink(full)
		return fmt.Errorf("%s: is a symbolic link to %q: name the directory itself", full, target)
	case !info.IsDir():
		return fmt.Errorf("%s: is not a directory", full)
	}
	return nil
}

func checkWriters(full string, info fs.FileInfo) error {
	if err := checkDir(full, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("%s: has mode %#o: must be writable only by its owner", full, info.Mode().Perm())
	}
	return nil
}

// Owner returns the id of the user who owns a file.
func Owner(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid
	}
	return ^uint32(0)
}

func trusted(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// OpenFile opens a regular file for reading. It also returns the users, other than root and the effective user, who
// can change its content.
func OpenFile(name string) (*os.File, []uint32, error) {
	d, err := Open(filepath.Dir(name), nil)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	f, info, err := OpenIn(d.Root, filepath.Base(name))
	if err != nil {
		return nil, nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: has mode %#o: must be writable only by its owner", name, info.Mode().Perm())
	}
	writers := d.Writers
	if owner := Owner(info); !trusted(owner) && !slices.Contains(writers, owner) {
		writers = append(writers, owner)
	}
	return f, writers, nil
}

// OpenOwnFile opens a file for reading that only root and the effective user can write to. Unlike OpenFile, it follows
// links, and does not check directories, so that it opens a file of a volume. Who can write to one of these directories
// can make the path lead to another file of root, so they must be root's.
func OpenOwnFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe has no writer to wait for
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s: is not a regular file", name)
	case info.Mode().Perm()&0o022 != 0:
		err = fmt.Errorf("%s: has mode %#o: must be writable only by its owner", name, info.Mode().Perm())
	case !trusted(Owner(info)):
		err = fmt.Errorf("%s: user %d owns it: must belong to root", name, Owner(info))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// OpenIn opens a regular file of a directory for reading. It checks for a link itself, because os.Root follows one
// within the directory in spite of O_NOFOLLOW.
func OpenIn(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	full := filepath.Join(root.Name(), name)
	info, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: is not a regular file", full)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := sameFile(full, info, f.Stat); err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// sameFile returns an error if the opened file is not the one that before describes.
func sameFile(full string, before fs.FileInfo, stat func() (fs.FileInfo, error)) error {
	opened, err := stat()
	if err == nil && !os.SameFile(before, opened) {
		err = fmt.Errorf("%s: was replaced while it was opened", full)
	}
	return err
}
