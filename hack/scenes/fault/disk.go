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

// MountDisk mounts a disk of so many bytes at a directory, which it makes. It takes root.
func MountDisk(dir string, size int64) (*Disk, error) {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
	}
	return &Disk{dir}, err
}

// Path is a path on the disk.
func (d *Disk) Path(elem string) string { return filepath.Join(d.dir, elem) }

// Fill writes until nothing more fits.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.Path("ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	chunk := make([]byte, 1<<20)
	for size := len(chunk); err == nil && size > 0; {
		if _, err = f.Write(chunk[:size]); errors.Is(err, syscall.ENOSPC) {
			size, err = size/2, nil
		}
	}
	return errors.Join(err, f.Close())
}

// Free takes away what Fill wrote.
func (d *Disk) Free() error { return os.Remove(d.Path("ballast")) }

// Unmount ends the disk, and what is on it.
func (d *Disk) Unmount() error {
	return errors.Join(syscall.Unmount(d.dir, 0), os.Remove(d.dir))
}
