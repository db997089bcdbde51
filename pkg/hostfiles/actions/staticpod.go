package actions

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/hostfiles/hostpath"
)

// maxManifest is the maximum size of a manifest, in bytes.
const maxManifest = 1 << 20

// staticPod changes an annotation in a manifest. The kubelet sees the old file or the complete new one, which has a
// name with a leading dot at first: the kubelet ignores such names.
func staticPod(name, attempt string) error {
	dir, err := hostpath.OpenOwn(filepath.Dir(name), nil)
	if err != nil {
		return err
	}
	defer dir.Close()
	root, base := dir.Root, filepath.Base(name)
	info, err := root.Lstat(base)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxManifest {
		return fmt.Errorf("%s: must be a regular file of at most %d bytes", name, maxManifest)
	}
	old, err := root.ReadFile(base)
	if err != nil {
		return err
	}
	edited, err := hostfiles.Annotate(old, attempt)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if bytes.Equal(old, edited) {
		return nil // a crash followed the write
	}
	tmp := "." + base + ".hostsync"
	if err := root.RemoveAll(tmp); err != nil {
		return err
	}
	if err := writeLike(root, tmp, edited, info); err != nil {
		return errors.Join(err, root.RemoveAll(tmp))
	}
	if err := root.Rename(tmp, base); err != nil {
		return err
	}
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeLike creates a file with the mode and owner of another one.
func writeLike(root *os.Root, name string, data []byte, like os.FileInfo) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if stat, ok := like.Sys().(*syscall.Stat_t); ok && (int(stat.Uid) != os.Geteuid() || int(stat.Gid) != os.Getegid()) {
		if err := f.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	if err := f.Chmod(like.Mode().Perm()); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}
