package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// disk models the states of a directory that a loss of power may leave: the synced data of each file, and the
// entries of each directory at its last sync or at a moment since then. It varies one directory at a time.
// It follows the store by scanning the real directory before each step.
type disk struct {
	t     *testing.T
	base  string
	nodes map[uint64]*node
	// synced is the path that the last step syncs.
	synced string
}

type node struct {
	target  string            // of a link
	data    []byte            // of a file that was synced
	durable map[string]uint64 // of a directory that was synced: its entries
	since   []map[string]uint64
	live    map[string]uint64
	dir     bool
	link    bool
}

// newDisk returns a disk for a directory whose entries are all synced.
func newDisk(t *testing.T, base string) *disk {
	t.Helper()
	d := &disk{t: t, base: base, nodes: map[uint64]*node{}}
	d.scan(base)
	for _, n := range d.nodes {
		n.durable, n.since = n.live, nil
	}
	require.NoError(t, filepath.WalkDir(base, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			d.nodes[inode(t, path)].data, err = os.ReadFile(path)
		}
		return err
	}))
	return d
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var s unix.Stat_t
	require.NoError(t, unix.Lstat(path, &s), path)
	return s.Ino
}

// scan records the entries at a path and below it, and returns the inode of the path.
func (d *disk) scan(path string) uint64 {
	number := inode(d.t, path)
	n := d.nodes[number]
	info, err := os.Lstat(path)
	require.NoError(d.t, err)
	if n == nil {
		n = &node{dir: info.IsDir(), link: info.Mode()&os.ModeSymlink != 0}
		d.nodes[number] = n
		// Kept open, so that the inode number is not reused.
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		require.NoError(d.t, err)
		d.t.Cleanup(func() { _ = unix.Close(fd) })
		if n.link {
			n.target, err = os.Readlink(path)
			require.NoError(d.t, err)
		}
	}
	if n.dir {
		entries, err := os.ReadDir(path)
		require.NoError(d.t, err)
		now := map[string]uint64{}
		for _, e := range entries {
			now[e.Name()] = d.scan(filepath.Join(path, e.Name()))
		}
		if !maps.Equal(n.live, now) {
			n.since = append(n.since, now)
		}
		n.live = now
	}
	return number
}

// step is the store's hook.
func (d *disk) step(op, name string) {
	d.scan(d.base)
	if d.synced != "" {
		n := d.nodes[inode(d.t, d.synced)]
		if n.dir {
			n.durable, n.since = n.live, nil
		} else {
			data, err := os.ReadFile(d.synced)
			require.NoError(d.t, err)
			n.data = data
		}
	}
	d.synced = ""
	if op == "sync" {
		d.synced = name
	}
}

// losses calls each once for each state that a loss of power may leave, with that state at base. Afterwards, base
// is restored.
func (d *disk) losses(each func(what string)) {
	d.step("end", "")
	kept := d.base + ".kept"
	require.NoError(d.t, os.Rename(d.base, kept))
	root := inode(d.t, kept)
	lose := func(what string, entries func(number uint64) map[string]uint64) {
		d.write(d.base, root, entries)
		each(what)
		require.NoError(d.t, os.RemoveAll(d.base))
	}
	durable := func(number uint64) map[string]uint64 { return d.nodes[number].durable }
	live := func(number uint64) map[string]uint64 { return d.nodes[number].live }
	lose("nothing that was not synced", durable)
	lose("all names", live)
	for number, n := range d.nodes {
		if !n.dir || len(n.since) == 0 {
			continue
		}
		for i, then := range n.since {
			for others, of := range map[string]func(uint64) map[string]uint64{"durable": durable, "live": live} {
				lose(fmt.Sprintf("change %d of %v, others %s", i+1, slices.Sorted(maps.Keys(then)), others), func(m uint64) map[string]uint64 {
					if m == number {
						return then
					}
					return of(m)
				})
			}
		}
	}
	require.NoError(d.t, os.Rename(kept, d.base))
}

// write creates a node at a path.
func (d *disk) write(path string, number uint64, entries func(uint64) map[string]uint64) {
	n := d.nodes[number]
	switch {
	case n.link:
		require.NoError(d.t, os.Symlink(n.target, path))
	case !n.dir:
		require.NoError(d.t, os.WriteFile(path, n.data, 0o600))
	default:
		require.NoError(d.t, os.Mkdir(path, 0o755))
		for name, child := range entries(number) {
			d.write(filepath.Join(path, name), child, entries)
		}
	}
}

// Whenever the power is lost, the old or the new pair is installed, a finished step is durable, and a store opened
// on the remaining files resumes.
func TestPowerIsLost(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	for _, form := range []string{"first", "link", "exchange", "takeover", "first at a path", "bundle", "remove"} {
		t.Run(form, func(t *testing.T) {
			tried, done := 0, false
			for stop := 1; !done; stop++ {
				base := filepath.Join(t.TempDir(), "base")
				s := spec()
				s.Combined = form == "link"
				read := filepath.Join(base, "etc", "dir", "web", currentLink)
				if form != "link" && form != "first" {
					s.Path = filepath.Join(base, "var", "fixed", "cert")
					read = s.Path
				}
				if form == "bundle" {
					s.Kind = hostfiles.Bundle
				}
				next := rotatortest.NewCA(t, 2, now)
				before, after := hosttest.Content(t, s, ca, now.Add(-time.Minute), name), hosttest.Content(t, s, next, now, name)
				require.NoError(t, os.Mkdir(base, 0o755))
				was := "" // ID of the content at the start
				switch form {
				case "takeover":
					require.NoError(t, os.MkdirAll(s.Path, 0o755))
					for file, data := range before.Files {
						require.NoError(t, os.WriteFile(filepath.Join(s.Path, file), data, 0o600))
					}
					was = "taken over"
				case "link", "exchange", "bundle", "remove":
					first := open(t, filepath.Join(base, "etc", "dir"), s)
					require.NoError(t, change(first, before))
					first.Close()
					was = before.ID
				}
				d, count := newDisk(t, base), 0
				st, err := Open(filepath.Join(base, "etc", "dir"), s, time.Now, WithHook(func(op, name string) error {
					d.step(op, name)
					if count++; count == stop {
						return errStopped
					}
					return nil
				}))
				if err == nil {
					err = st.Lock(t.Context(), nil)
				}
				want := after.ID
				switch {
				case err != nil:
				case form == "remove":
					want = ""
					_, err = st.Remove()
				default:
					err = change(st, after)
				}
				if st != nil {
					st.Close()
				}
				if done = err == nil; !done {
					require.ErrorIs(t, err, errStopped)
				}
				d.losses(func(what string) {
					tried++
					at := fmt.Sprintf("step %d: %s", stop, what)
					found := idAt(t, s, read)
					switch {
					case done:
						require.Equal(t, want, found, at)
					case was == "taken over":
						require.Contains(t, []string{before.ID, after.ID}, found, at)
					default:
						require.Contains(t, []string{was, want}, found, at)
					}
					again := open(t, filepath.Join(base, "etc", "dir"), s)
					require.NoError(t, change(again, after), at)
					require.Equal(t, after.ID, idAt(t, s, read), at)
					_, err := again.Remove()
					require.NoError(t, err, at)
					if was == "taken over" {
						require.Equal(t, before.ID, idAt(t, s, read), "%s: the original is back", at)
					} else {
						require.Empty(t, idAt(t, s, read), at)
					}
				})
			}
			t.Logf("%d losses", tried)
			require.Greater(t, tried, 30)
		})
	}
}

// idAt returns the ID of the content at the path of a store, or "". Incomplete content fails the test.
func idAt(t *testing.T, s *hostfiles.Store, path string) string {
	t.Helper()
	var f hostfiles.Files
	read := func(name string) []byte {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			require.NoError(t, err)
		}
		return data
	}
	if s.Kind == hostfiles.Bundle {
		f.Bundle = read(path)
	} else {
		f = hostfiles.Files{Cert: read(filepath.Join(path, hostfiles.CertFile)), Key: read(filepath.Join(path, hostfiles.KeyFile)), Bundle: read(filepath.Join(path, hostfiles.BundleFile))}
	}
	if f.Cert == nil && f.Key == nil && f.Bundle == nil {
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist)
		return ""
	}
	c, err := hostfiles.Read(s, f, nil)
	require.NoError(t, err)
	return c.ID
}
