package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/rotatortest"
	"github.com/servingcert/servingcert/test/skip"
)

const name = "web.shop.svc"

func TestMain(m *testing.M) {
	hosttest.InMemory()
	m.Run()
}

func spec() *hostfiles.Store {
	return &hostfiles.Store{Name: "web", Kind: hostfiles.Pair, Mode: 0o600, UID: -1, GID: -1}
}

func open(t *testing.T, root string, s *hostfiles.Store, options ...Option) *Store {
	t.Helper()
	st, err := Open(root, s, time.Now, options...)
	require.NoError(t, err)
	require.NoError(t, st.Lock(t.Context(), nil))
	t.Cleanup(st.Close)
	return st
}

// change switches a store as hostsync does: it saves the state first.
func change(st *Store, c *hostfiles.Content) error {
	st.State = st.State.Begin(st.spec, c, hostfiles.Served{}, "", "", time.Now())
	if err := st.Save(); err != nil {
		return err
	}
	return st.Install(c, false)
}

// pairAt reads a pair through one open directory, so that both files are of one generation.
func pairAt(dir string) (*tls.Certificate, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	cert, err := root.ReadFile(hostfiles.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := root.ReadFile(hostfiles.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &pair, err
}

var errStopped = errors.New("stopped here")

// After each step of a switch, a copy of the directory models a loss of power: files that were not synced are
// empty in the copy. The copy has the old or the new pair, and a store opened on the original resumes.
func TestEveryStepOfASwitch(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	for _, form := range []string{"link", "exchange", "first takeover"} {
		steps := 0
		for stop := 1; ; stop++ {
			base := t.TempDir()
			s := spec()
			s.Combined = true
			read := filepath.Join(base, "dir", "web", currentLink)
			if form != "link" {
				s.Path = filepath.Join(base, "fixed", "cert")
				read = s.Path
			}
			before, after := hosttest.Content(t, s, ca, now.Add(-time.Minute), name), hosttest.Content(t, s, ca, now, name)
			if form == "first takeover" {
				require.NoError(t, os.MkdirAll(s.Path, 0o755))
				for file, data := range before.Files {
					require.NoError(t, os.WriteFile(filepath.Join(s.Path, file), data, 0o600))
				}
			} else {
				first := open(t, filepath.Join(base, "dir"), s)
				require.NoError(t, change(first, before))
				first.Close()
			}
			unsynced, count := map[string]bool{}, 0
			st, err := Open(filepath.Join(base, "dir"), s, time.Now, WithHook(func(op, name string) error {
				switch count++; {
				case count == stop:
					return errStopped
				case op == "create":
					unsynced[name] = true
				case op == "sync":
					delete(unsynced, name)
				}
				return nil
			}))
			if err == nil {
				err = st.Lock(t.Context(), nil)
			}
			if err == nil {
				err = change(st, after)
			}
			if err == nil {
				steps = count
				break
			}
			require.ErrorIs(t, err, errStopped)
			requireEither(t, fmt.Sprintf("%s, step %d", form, stop), read, before, after)
			// The same must hold after a loss of power.
			lost := t.TempDir()
			require.NoError(t, os.CopyFS(lost, os.DirFS(base)))
			for file := range unsynced {
				rel, err := filepath.Rel(base, file)
				require.NoError(t, err)
				if _, err := os.Stat(filepath.Join(lost, rel)); err == nil {
					require.NoError(t, os.WriteFile(filepath.Join(lost, rel), nil, 0o600))
				}
			}
			rel, err := filepath.Rel(base, read)
			require.NoError(t, err)
			requireEither(t, fmt.Sprintf("%s, power lost at step %d", form, stop), filepath.Join(lost, rel), before, after)
			if st != nil {
				st.Close()
			}
			again := open(t, filepath.Join(base, "dir"), s)
			require.NoError(t, change(again, after))
			held, err := again.Load()
			require.NoError(t, err)
			require.Equal(t, after.ID, held.Here.Content.ID)
			if form == "first takeover" {
				_, err := again.Remove()
				require.NoError(t, err)
				pair, err := pairAt(s.Path)
				require.NoError(t, err, "step %d: the original is back", stop)
				require.Equal(t, before.Leaf.Raw, pair.Leaf.Raw)
				left, err := os.ReadDir(filepath.Dir(s.Path))
				require.NoError(t, err)
				require.Len(t, left, 1, "step %d: %v", stop, left)
			} else {
				again.Close()
			}
		}
		require.Greater(t, steps, 20, form)
		t.Logf("%s: %d steps", form, steps)
	}
}

// requireEither fails the test unless dir has one of the two pairs.
func requireEither(t *testing.T, at, dir string, before, after *hostfiles.Content) {
	t.Helper()
	pair, err := pairAt(dir)
	require.NoError(t, err, at)
	require.True(t, pair.Leaf.Equal(before.Leaf) || pair.Leaf.Equal(after.Leaf), at)
}

func TestReadersSeePairsThatMatch(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	root := t.TempDir()
	link, exchange := spec(), spec()
	exchange.Name, exchange.Path = "fixed", filepath.Join(root, "at", "cert")
	var contents []*hostfiles.Content
	for i := range 4 {
		contents = append(contents, hosttest.Content(t, link, ca, now.Add(time.Duration(i)*time.Second), name))
	}
	stores := []*Store{open(t, root, link), open(t, root, exchange)}
	for _, st := range stores {
		require.NoError(t, change(st, contents[0]))
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	var mu sync.Mutex
	reads := 0
	for _, dir := range []string{filepath.Join(root, "web", currentLink), exchange.Path} {
		for range 2 {
			readers.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						mu.Lock()
						reads += n
						mu.Unlock()
						return
					default:
					}
					// After two exchanges, the open directory may have been removed.
					if _, err := pairAt(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
						assert.NoError(t, err)
						return
					}
				}
			})
		}
	}
	for i := range 60 {
		for _, st := range stores {
			require.NoError(t, change(st, contents[i%len(contents)]))
		}
	}
	close(done)
	readers.Wait()
	t.Logf("%d reads", reads)
	assert.Greater(t, reads, 200)
}

// A program that watches the files that it opened first, as those of Kubernetes do, gets an event at each
// switch, and one when these files are removed.
func TestWatchersGetAnEventAtEachSwitch(t *testing.T) {
	now := time.Now()
	ca, st := rotatortest.NewCA(t, 1, now), open(t, t.TempDir(), spec())
	require.NoError(t, change(st, hosttest.Content(t, spec(), ca, now.Add(-time.Hour), name)))
	watcher, err := fsnotify.NewWatcher()
	require.NoError(t, err)
	defer watcher.Close()
	require.NoError(t, watcher.Add(filepath.Join(st.root, "web", "current", hostfiles.CertFile)))
	for i := range 8 {
		require.NoError(t, change(st, hosttest.Content(t, spec(), ca, now.Add(time.Duration(i)*time.Second), name)))
		select {
		case e := <-watcher.Events:
			if e.Has(fsnotify.Remove) {
				return
			}
		case <-time.After(process.Soon):
			t.Fatalf("no event at switch %d", i+1)
		}
	}
	t.Fatal("the file that was opened first still exists")
}

func TestThreeGenerationsAreKept(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	root := t.TempDir()
	st := open(t, root, spec())
	var last *hostfiles.Content
	for i := range 5 {
		last = hosttest.Content(t, st.spec, ca, now.Add(time.Duration(i)*time.Second), name)
		require.NoError(t, change(st, last))
	}
	dirs, err := filepath.Glob(filepath.Join(root, "web", "????????"))
	require.NoError(t, err)
	kept := 0
	for _, d := range dirs {
		if info, err := os.Lstat(d); err == nil && info.IsDir() {
			kept++
		}
	}
	assert.Equal(t, 3, kept)
	// The same leaf with another bundle is another generation.
	next := rotatortest.NewCA(t, 2, now)
	f := hostfiles.Files{Cert: last.Files["tls.crt"], Key: last.Files["tls.key"], Bundle: append(last.Files["ca.crt"], hosttest.Files(t, next, next.Issue(t, now, name)).Bundle...)}
	c, err := hostfiles.Read(st.spec, f, nil)
	require.NoError(t, err)
	require.NoError(t, change(st, c))
	held, err := st.Load()
	require.NoError(t, err)
	assert.Equal(t, c.ID, held.Here.Content.ID)
	assert.Equal(t, last.ID, held.Previous.Content.ID)
}

func TestRemoveRestoresOriginals(t *testing.T) {
	now := time.Now()
	for title, c := range map[string]struct {
		kind   hostfiles.Kind
		make   func(path string) error
		verify func(t *testing.T, path string)
	}{
		"a file, for a bundle": {hostfiles.Bundle, func(p string) error { return os.WriteFile(p, []byte("mine"), 0o640) }, func(t *testing.T, p string) {
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			assert.Equal(t, "mine", string(data))
		}},
		"a file, for a pair": {hostfiles.Pair, func(p string) error { return os.WriteFile(p, []byte("mine"), 0o640) }, func(t *testing.T, p string) {
			assert.FileExists(t, p)
		}},
		"a directory": {hostfiles.Pair, func(p string) error { return os.MkdirAll(filepath.Join(p, "deep"), 0o755) }, func(t *testing.T, p string) {
			assert.DirExists(t, filepath.Join(p, "deep"))
		}},
		"a link to elsewhere": {hostfiles.Pair, func(p string) error { return os.Symlink("/etc", p) }, func(t *testing.T, p string) {
			target, err := os.Readlink(p)
			require.NoError(t, err)
			assert.Equal(t, "/etc", target)
		}},
		"nothing": {hostfiles.Pair, func(string) error { return nil }, func(t *testing.T, p string) { assert.NoDirExists(t, p) }},
	} {
		t.Run(title, func(t *testing.T) {
			base := t.TempDir()
			s := spec()
			s.Kind, s.Path = c.kind, filepath.Join(base, "there")
			require.NoError(t, c.make(s.Path))
			st := open(t, filepath.Join(base, "dir"), s)
			for i := range 2 {
				require.NoError(t, change(st, hosttest.Content(t, s, rotatortest.NewCA(t, i+1, now), now, name)))
			}
			held, err := st.Load()
			require.NoError(t, err)
			require.NotNil(t, held.Here.Content)
			_, err = st.Remove()
			require.NoError(t, err)
			c.verify(t, s.Path)
			assert.NoDirExists(t, filepath.Join(base, "dir", "web"))
			left, err := filepath.Glob(filepath.Join(base, "*hostsync*"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

func TestPlacesThatAreRefused(t *testing.T) {
	root := t.TempDir()
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "web")))
	_, err := Open(root, spec(), time.Now)
	require.ErrorContains(t, err, "web: is a symbolic link to")
	require.NoError(t, os.Remove(filepath.Join(root, "web")))
	require.NoError(t, os.Mkdir(filepath.Join(root, "web"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(root, "web"), 0o777))
	_, err = Open(root, spec(), time.Now)
	require.ErrorContains(t, err, "has mode 0777: must be writable only by its owner")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(filepath.Join(root, "web"), 0o755))
		require.NoError(t, os.Chown(filepath.Join(root, "web"), 1234, 0))
		_, err = Open(root, spec(), time.Now)
		require.ErrorContains(t, err, "web: user 1234 owns it")
	} else {
		skip.Part(t, "gives a directory to another user, which needs root")
	}
	// A link above the path of a store is refused too.
	require.NoError(t, os.RemoveAll(filepath.Join(root, "web")))
	target := filepath.Join(outside, "tls.crt")
	require.NoError(t, os.WriteFile(target, []byte("root's"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "link")))
	linked := spec()
	linked.Kind, linked.Path, linked.UID = hostfiles.Bundle, filepath.Join(root, "link", "tls.crt"), 65534
	now := time.Now()
	content, err := hostfiles.Read(linked, hostfiles.Files{Bundle: pki.EncodeCertificates(rotatortest.NewCA(t, 1, now).Root)}, nil)
	require.NoError(t, err)
	through := open(t, root, linked)
	require.ErrorContains(t, through.Install(content, false), "link: is a symbolic link to")
	through.Close()
	kept, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "root's", string(kept))
	require.NoError(t, os.Remove(filepath.Join(root, "link")))
	// A file of the name of the store's directory is kept.
	require.NoError(t, os.RemoveAll(filepath.Join(root, "web")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "web"), []byte("mine"), 0o600))
	st := open(t, root, spec())
	restored, err := st.Remove()
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(root, "web")}, restored)
	data, err := os.ReadFile(filepath.Join(root, "web"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// A step that fails as on a full disk leaves the installed pair; the next attempt succeeds.
func TestAFullDisk(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	root := t.TempDir()
	st := open(t, root, spec())
	before, after := hosttest.Content(t, st.spec, ca, now, name), hosttest.Content(t, st.spec, ca, now, name)
	require.NoError(t, change(st, before))
	st.home.hook = func(op, _ string) error {
		if op == "write" {
			return unix.ENOSPC
		}
		return nil
	}
	require.ErrorIs(t, change(st, after), unix.ENOSPC)
	held, err := st.Load()
	require.NoError(t, err)
	require.Equal(t, before.ID, held.Here.Content.ID)
	st.home.hook = nil
	require.NoError(t, change(st, after))
	// A key that another program made readable.
	key := filepath.Join(root, "web", currentLink, hostfiles.KeyFile)
	require.NoError(t, os.Chmod(key, 0o644))
	held, err = st.Load()
	require.NoError(t, err)
	require.Contains(t, held.Access, "tls.key has mode 0644: must be 0600")
	require.NoError(t, st.SetModes(held.Here.Content))
	held, err = st.Load()
	require.NoError(t, err)
	require.Empty(t, held.Access)
}

// Remove keeps a directory that it did not write, and fails where it cannot look for its own.
func TestRemoveOfAPathThatIsNotTheStores(t *testing.T) {
	now, base := time.Now(), t.TempDir()
	s := spec()
	s.Path = filepath.Join(base, "etc", "tls")
	root := filepath.Join(base, "dir")
	st := open(t, root, s)
	require.NoError(t, change(st, hosttest.Content(t, s, rotatortest.NewCA(t, 1, now), now, name)))
	st.Close()

	require.NoError(t, os.Rename(filepath.Join(base, "etc"), filepath.Join(base, "unmounted")))
	_, err := open(t, root, s).Remove()
	require.ErrorContains(t, err, s.Path+": its directory is not here")
	require.NoError(t, os.Rename(filepath.Join(base, "unmounted"), filepath.Join(base, "etc")))

	require.NoError(t, os.Rename(s.Path, s.Path+".former"))
	require.NoError(t, os.Mkdir(s.Path, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.Path, "tls.key"), []byte("mine"), 0o600))
	_, err = open(t, root, s).Remove()
	require.ErrorContains(t, err, s.Path+": hostsync did not create this directory")
	require.FileExists(t, filepath.Join(s.Path, "tls.key"))

	require.NoError(t, os.Rename(s.Path, s.Path+".mine"))
	require.NoError(t, os.Rename(s.Path+".former", s.Path))
	_, err = open(t, root, s).Remove()
	require.NoError(t, err)
	require.NoDirExists(t, s.Path)
	require.NoDirExists(t, filepath.Join(root, "web"))
}

// A directory that somebody puts at the path of a store is kept, and restored when the store is removed.
func TestADirectoryThatReplacesThePathIsKept(t *testing.T) {
	now, base := time.Now(), t.TempDir()
	s := spec()
	s.Path = filepath.Join(base, "tls")
	st := open(t, filepath.Join(base, "dir"), s)
	for i := range 3 {
		require.NoError(t, change(st, hosttest.Content(t, s, rotatortest.NewCA(t, i+1, now), now, name)))
		if i == 0 {
			require.NoError(t, os.RemoveAll(s.Path))
			require.NoError(t, os.Mkdir(s.Path, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(s.Path, "tls.key"), []byte("mine"), 0o600))
		}
	}
	restored, err := st.Remove()
	require.NoError(t, err)
	require.Equal(t, []string{s.Path}, restored)
	data, err := os.ReadFile(filepath.Join(s.Path, "tls.key"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

func TestASecondProcessWaits(t *testing.T) {
	root := t.TempDir()
	first := open(t, root, spec())
	second, err := Open(root, spec(), time.Now)
	require.NoError(t, err)
	require.ErrorIs(t, second.Lock(t.Context(), nil), ErrLocked)
	waiting, locked := make(chan struct{}), make(chan error, 1)
	go func() { locked <- second.Lock(t.Context(), func() { close(waiting) }) }()
	<-waiting
	_, err = first.Remove() // Lock then waits for a removed file
	require.NoError(t, err)
	require.NoError(t, <-locked)
	require.FileExists(t, filepath.Join(root, "web", lockFile))
	second.Close()
}

// A process that switches continuously is killed at several moments.
func TestKilledWhileSwitching(t *testing.T) {
	if root := os.Getenv("HOSTSYNC_TEST_ROOT"); root != "" {
		now := time.Now()
		ca := rotatortest.NewCA(t, 1, now)
		st := open(t, root, spec())
		contents := []*hostfiles.Content{hosttest.Content(t, st.spec, ca, now, name), hosttest.Content(t, st.spec, ca, now, name)}
		for i := 0; ; i++ {
			require.NoError(t, change(st, contents[i%2]))
		}
	}
	root := t.TempDir()
	for i := range 12 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileSwitching$")
		cmd.Env = append(os.Environ(), "HOSTSYNC_TEST_ROOT="+root)
		require.NoError(t, cmd.Start())
		dir := filepath.Join(root, "web", currentLink)
		require.Eventually(t, func() bool { _, err := pairAt(dir); return err == nil }, process.Soon, time.Millisecond)
		time.Sleep(time.Duration(i*7) * time.Millisecond) // at another moment each time
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		_, err := pairAt(dir)
		require.NoError(t, err)
	}
}
