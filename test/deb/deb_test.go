//go:build e2e

package deb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// TestExtract: /lib and /usr/lib are one directory, whichever of them a package names.
func TestExtract(t *testing.T) {
	tree := t.TempDir()
	for file, content := range map[string]string{
		"DEBIAN/control":        "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: m <m@example.com>\nDescription: d\n",
		"lib/libold.so":         "old",
		"usr/lib/libnew.so":     "new",
		"usr/share/doc/p/about": "read by nobody",
	} {
		path := filepath.Join(tree, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	archive := filepath.Join(t.TempDir(), "p.deb")
	require.NoError(t, run(exec.CommandContext(t.Context(), "dpkg-deb", "--build", tree, archive)))

	root := filepath.Join(t.TempDir(), "root")
	require.NoError(t, extract(t.Context(), root, []string{archive}))
	for _, file := range []string{"lib/libold.so", "lib/libnew.so", "usr/lib/libold.so", "etc/passwd"} {
		require.FileExists(t, filepath.Join(root, file))
	}
	link, err := os.Readlink(filepath.Join(root, "lib"))
	require.NoError(t, err)
	require.Equal(t, "usr/lib", link)
	require.NoDirExists(t, filepath.Join(root, "usr/share/doc"))
	info, err := os.Stat(filepath.Join(root, "tmp"))
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|os.ModeSticky|0o777, info.Mode())

	broken := filepath.Join(t.TempDir(), "broken.deb")
	require.NoError(t, os.WriteFile(broken, []byte("no archive"), 0o600))
	require.ErrorContains(t, extract(t.Context(), filepath.Join(t.TempDir(), "root"), []string{broken}), "unpack broken.deb: ")
}

// TestFiles fetches a small package for real, and a second time from the cache.
func TestFiles(t *testing.T) {
	cache, err := controlplane.CacheDir()
	require.NoError(t, err)
	t.Setenv("SERVINGCERT_CONTROLPLANE_CACHE", filepath.Join(t.TempDir(), "cache"))
	var log bytes.Buffer
	dir, err := Files(t.Context(), &log, "libmd0")
	require.NoError(t, err)
	require.NotContains(t, dir, cache)
	require.Equal(t, "fetching Debian's libmd0\n", log.String())
	loaders, err := filepath.Glob(filepath.Join(dir, "lib*", "*", "libc.so.6"))
	require.NoError(t, err)
	require.NotEmpty(t, loaders, "what it depends on is there too")

	again, err := Files(t.Context(), &log, "libmd0")
	require.NoError(t, err)
	require.Equal(t, dir, again)
	require.Equal(t, "fetching Debian's libmd0\n", log.String())

	_, err = download(t.Context(), t.TempDir(), []string{"there-is-no-such-package"})
	require.ErrorContains(t, err, "there-is-no-such-package")
}
