package hostpath

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/skip"
)

const nobody = 65534

// A directory is opened only if no user other than root decides where its path leads.
func TestOpenOwn(t *testing.T) {
	skip.WithoutRoot(t, "gives directories to another user")
	base := t.TempDir()
	for path, mode := range map[string]fs.FileMode{"a/b": 0o755, "shared/b": 0o755, "theirs/b": 0o755, "sticky/b": 0o755, "group": 0o775} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, path), 0o755))
		require.NoError(t, os.Chmod(filepath.Join(base, path), mode))
	}
	require.NoError(t, os.Chmod(filepath.Join(base, "shared"), 0o777))
	require.NoError(t, os.Chmod(filepath.Join(base, "sticky"), 0o777|fs.ModeSticky))
	require.NoError(t, os.Chown(filepath.Join(base, "theirs"), nobody, nobody))
	require.NoError(t, os.Symlink("a", filepath.Join(base, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	for path, want := range map[string]string{
		"a/b": "", "a/../a/b/": "", "sticky/b": "",
		"link":     `link: is a symbolic link to "a": name the directory itself`,
		"link/b":   `link: is a symbolic link to "a"`,
		"shared/b": "shared: has mode 0777: must be writable only by its owner",
		"group":    "group: has mode 0775: must be writable",
		"sticky":   "sticky: other users can create files in it",
		"theirs":   "theirs: user 65534 owns it or a directory above it: must belong to root",
		"theirs/b": "theirs/b: user 65534 owns it or a directory above it",
		"file":     "file: is not a directory",
		"none":     "no such file or directory",
	} {
		d, err := OpenOwn(base+"/"+path, nil)
		if want != "" {
			assert.ErrorContains(t, err, want, path)
			continue
		}
		if assert.NoError(t, err, path) {
			assert.Equal(t, filepath.Join(base, path), d.Name())
			assert.NoError(t, d.Close())
		}
	}
	_, err := OpenOwn("a", nil)
	assert.ErrorContains(t, err, "must be an absolute path")
	d, err := OpenOwn("/", nil)
	require.NoError(t, err)
	require.NoError(t, d.Close())

	made := 0
	d, err = OpenOwn(filepath.Join(base, "a/new/below"), func(above *os.Root, name string) error { made++; return above.Mkdir(name, 0o755) })
	require.NoError(t, err)
	assert.Equal(t, 2, made)
	require.NoError(t, d.Close())
}

// A file is opened whoever owns it, and the users who can change it are returned.
func TestOpenFile(t *testing.T) {
	skip.WithoutRoot(t, "gives files to another user")
	base := t.TempDir()
	write := func(path string, mode fs.FileMode) string {
		name := filepath.Join(base, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte("x"), mode))
		require.NoError(t, os.Chmod(name, mode))
		return name
	}
	ours, theirs, inTheirs, shared := write("ours", 0o644), write("theirs", 0o644), write("dir/ours", 0o644), write("shared", 0o666)
	require.NoError(t, os.Chown(theirs, nobody, nobody))
	require.NoError(t, os.Chown(filepath.Dir(inTheirs), nobody, nobody))
	for name, want := range map[string][]uint32{ours: nil, theirs: {nobody}, inTheirs: {nobody}} {
		f, writers, err := OpenFile(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, writers, name)
		require.NoError(t, f.Close())
	}
	link := filepath.Join(base, "link")
	require.NoError(t, os.Symlink("ours", link))
	for name, want := range map[string]string{
		shared: "has mode 0666: must be writable only by its owner", link: "is not a regular file", base: "is not a regular file", base + "/none": "no such file",
	} {
		_, _, err := OpenFile(name)
		assert.ErrorContains(t, err, want, name)
	}
}
