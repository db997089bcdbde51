package source

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const name = "web.shop.svc"

func TestWatchSeesWhatAKubeletDoes(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	dir, other := t.TempDir(), t.TempDir()
	first := hosttest.Files(t, ca, ca.Issue(t, now, name))
	hosttest.Write(t, dir, first)
	watch, err := NewWatch()
	require.NoError(t, err)
	watch.Add(dir)
	watch.Add(dir)
	watch.Add(other)
	watch.Add(filepath.Join(dir, "missing"))
	changed := make(chan string, 100)
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { watch.Run(ctx, func(dir string) { changed <- dir }) })
	// sees waits for a change after which the files are read as written.
	sees := func(want hostfiles.Files) {
		t.Helper()
		end := time.After(process.Soon)
		for {
			select {
			case at := <-changed:
				assert.Equal(t, dir, at)
				if got, err := Read(dir); err == nil && assert.ObjectsAreEqual(want, got) {
					return
				}
			case <-end:
				require.Fail(t, "no change was reported after which the files are read as written")
			}
		}
	}
	second := hosttest.Files(t, ca, ca.Issue(t, now, name))
	hosttest.Write(t, dir, second)
	sees(second)
	hosttest.Write(t, dir, hostfiles.Files{})
	sees(hostfiles.Files{})
	hosttest.Write(t, dir, first)
	sees(first)
	cancel()
	running.Wait()
	// Plain files, as an agent writes them.
	require.NoError(t, os.WriteFile(filepath.Join(other, "tls.crt"), first.Cert, 0o600))
	got, err := Read(other)
	require.NoError(t, err)
	assert.Equal(t, hostfiles.Files{Cert: first.Cert}, got)
}

// Each read returns files of one version, while versions change all the time.
func TestReadMixesNoVersions(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	dir := t.TempDir()
	var versions []hostfiles.Files
	for range 2 {
		versions = append(versions, hosttest.Files(t, ca, ca.Issue(t, now, name)))
	}
	hosttest.Write(t, dir, versions[0])
	done := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		defer close(done)
		for i := range 300 {
			old, _ := os.Readlink(filepath.Join(dir, data))
			hosttest.Write(t, dir, versions[i%2])
			_ = os.RemoveAll(filepath.Join(dir, old)) // as a kubelet does
		}
	})
	reads := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		got, err := Read(dir)
		if err != nil {
			require.ErrorContains(t, err, "changed during each read")
			continue
		}
		require.Contains(t, versions, got)
		reads++
	}
	writing.Wait()
	t.Logf("%d reads", reads)
	assert.Greater(t, reads, 10)
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	file := filepath.Join(dir, "tls.crt")
	require.NoError(t, os.Mkdir(file, 0o755))
	_, err = Read(dir)
	require.EqualError(t, err, file+": is not a regular file")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, make([]byte, maxFile+1), 0o600))
	_, err = Read(dir)
	require.ErrorContains(t, err, "is larger than 1048576 bytes")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	got, err := Read(dir)
	require.NoError(t, err)
	assert.NotNil(t, got.Cert, "empty, and not missing")
	require.NoError(t, os.Symlink("..gone", filepath.Join(dir, data)))
	_, err = Read(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.RemoveAll(dir))
	_, err = Read(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// An agent that can write to the directory cannot make root read files outside it.
func TestLinksThatLeadElsewhereAreNotFollowed(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(elsewhere, []byte("secret"), 0o600))
	for name, link := range map[string][2]string{
		"a file":           {"tls.key", elsewhere},
		"a relative one":   {"tls.key", "../" + filepath.Base(filepath.Dir(elsewhere)) + "/secret"},
		"the volume's own": {"..data", filepath.Dir(elsewhere)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(filepath.Dir(filepath.Dir(elsewhere)), "from")
			require.NoError(t, os.Mkdir(dir, 0o700))
			defer os.RemoveAll(dir)
			require.NoError(t, os.Symlink(link[1], filepath.Join(dir, link[0])))
			files, err := Read(dir)
			assert.ErrorContains(t, err, "path escapes from parent")
			assert.ErrorContains(t, err, dir)
			assert.Zero(t, files)
		})
	}
}

// Who can write to a directory above the source cannot make root read another store, or any other directory.
func TestNoLinkLeadsToTheDirectory(t *testing.T) {
	base := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(base, "store/current"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(base, "store/current/tls.key"), []byte("secret"), 0o600))
	require.NoError(t, os.Symlink("store/current", filepath.Join(base, "link")))
	require.NoError(t, os.Symlink(filepath.Join(base, "store"), filepath.Join(base, "above")))
	for from, link := range map[string]string{"link": "link", "above/current": "above"} {
		files, err := Read(filepath.Join(base, from))
		assert.ErrorContains(t, err, filepath.Join(base, link)+": is a symbolic link", from)
		assert.Zero(t, files, from)
	}
}

// A volume is writable for all users, and so may be the directory that contains a source.
func TestDirectoriesThatOthersWriteToAreRead(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "filled/by/a/tool")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("certificate"), 0o600))
	for _, each := range []string{"filled", "filled/by", "filled/by/a/tool"} {
		require.NoError(t, os.Chmod(filepath.Join(base, each), 0o777))
	}
	files, err := Read(dir)
	require.NoError(t, err)
	assert.Equal(t, hostfiles.Files{Cert: []byte("certificate")}, files)
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "tls.crt"), 0o600))
	_, err := Read(dir)
	assert.ErrorContains(t, err, "tls.crt: is not a regular file")
}
