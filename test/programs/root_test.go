//go:build linux

package programs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/deb"
)

// user is as whom the programs run, and its group. deb.Files gives it a name.
const user = 65532

// root is the root directory of the programs: Debian's packages.
type root struct {
	dir string
	// work is a directory in it for this run, as the programs see it.
	work string

	mu      sync.Mutex
	cluster *controlplane.ControlPlane // nil until a program needs it
}

// newRoot makes the root directory of the packages. It is kept in the cache.
func newRoot(t *testing.T, packages ...string) *root {
	t.Helper()
	require.Zero(t, os.Geteuid(), "the programs run in a root directory of their own, as another user: that needs root")
	dir, err := deb.Files(t.Context(), os.Stderr, packages...)
	require.NoError(t, err)
	r := &root{dir: dir}
	r.devices(t)
	require.NoError(t, os.MkdirAll(r.host("/proc"), 0o555))
	require.NoError(t, mountProc(r.host("/proc")))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(r.host("/proc"), syscall.MNT_DETACH)) })
	work, err := os.MkdirTemp(r.host("/tmp"), "programs-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(work)) })
	require.NoError(t, os.Chmod(work, 0o755))
	r.work = "/tmp/" + filepath.Base(work)
	require.NoError(t, os.Mkdir(r.host(r.work+"/bin"), 0o755))
	t.Cleanup(func() {
		if r.cluster != nil {
			require.NoError(t, r.cluster.Stop())
		}
	})
	return r
}

// mountProc mounts a view of the processes, for reading only.
func mountProc(dir string) error {
	return syscall.Mount("proc", dir, "proc", syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
}

// kubeconfig returns that of the administrator of a cluster.
func (r *root) kubeconfig(t *testing.T) []byte {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster == nil {
		cluster, err := controlplane.Start(t.Context(), controlplane.Options{})
		require.NoError(t, err)
		r.cluster = cluster
	}
	content, err := controlplane.Kubeconfig(r.cluster.AdminConfig())
	require.NoError(t, err)
	return content
}

// install returns the path of an executable, as programs in the root directory see it. What
// is not in the cache is built.
func (r *root) install(t *testing.T, from source, executable string) string {
	t.Helper()
	if from == debian {
		return executable
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	path := r.work + "/bin/" + executable
	if _, err := os.Stat(r.host(path)); err == nil {
		return path
	}
	var built map[string]string
	var err error
	if from == kubernetes {
		built, err = controlplane.Binaries(t.Context(), os.Stderr, executable)
	} else {
		built, err = controlplane.Tools(t.Context(), string(from))
	}
	require.NoError(t, err)
	require.Contains(t, built, executable)
	require.NoError(t, linkOrCopy(built[executable], r.host(path)))
	return path
}

// host returns the path of a file of the root directory on this machine.
func (r *root) host(path string) string { return filepath.Join(r.dir, path) }

// devices makes what scripts and programs expect in every root directory.
func (r *root) devices(t *testing.T) {
	t.Helper()
	require.NoError(t, os.MkdirAll(r.host("/dev"), 0o755))
	for name, minor := range map[string]int{"null": 3, "zero": 5, "random": 8, "urandom": 9} {
		file := r.host("/dev/" + name)
		if err := syscall.Mknod(file, syscall.S_IFCHR|0o666, 1<<8|minor); !errors.Is(err, os.ErrExist) {
			require.NoError(t, err)
		}
		require.NoError(t, os.Chmod(file, 0o666))
	}
	if err := os.Symlink("dash", r.host("/bin/sh")); !errors.Is(err, os.ErrExist) {
		require.NoError(t, err)
	}
}

// linkOrCopy makes to the file from, which everybody may run.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(fmt.Errorf("copy %s: %w", from, err), out.Close())
	}
	return out.Close()
}
