package fault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Disk is a file system in memory that can be filled.
type Disk struct{ dir string }

// ballast is the file that fills it.
const ballast = "ballast"

// MountDisk mounts a disk of so many bytes at a directory, which it makes. It takes root.
func MountDisk(dir string, size int64) (*Disk, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		return nil, errors.Join(fmt.Errorf("mount tmpfs at %s: %w", dir, err), os.Remove(dir))
	}
	return &Disk{dir}, nil
}

// Path is a path on the disk.
func (d *Disk) Path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}

// Fill writes until nothing more fits.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.Path(ballast), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for size := len(chunk); size > 0; {
		_, err := f.Write(chunk[:size])
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// Free takes away what Fill wrote.
func (d *Disk) Free() error { return os.Remove(d.Path(ballast)) }

// Unmount ends the disk, and what is on it. It may be called again.
func (d *Disk) Unmount() error {
	if err := syscall.Unmount(d.dir, 0); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("unmount %s: %w", d.dir, err)
	}
	if err := os.Remove(d.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
