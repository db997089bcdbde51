package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/rotatortest"
	"github.com/servingcert/servingcert/test/skip"
)

// A full or read-only file system fails an attempt, which changes nothing; the next attempt succeeds. Only root
// can mount one.
func TestAFileSystemThatRefuses(t *testing.T) {
	root := t.TempDir()
	err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=256k,mode=0755")
	if errors.Is(err, os.ErrPermission) {
		skip.Now(t, "mounts a file system, which needs root, and in a container CAP_SYS_ADMIN")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, unix.MNT_DETACH)) })
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	st := open(t, root, spec())
	holds := func(id string) {
		t.Helper()
		held, err := st.Load()
		require.NoError(t, err)
		require.Equal(t, id, held.Here.Content.ID)
		_, err = pairAt(filepath.Join(root, "web", currentLink))
		require.NoError(t, err)
	}
	was := hosttest.Content(t, st.spec, ca, now, name)
	require.NoError(t, change(st, was))

	next := hosttest.Content(t, st.spec, ca, now, name)
	require.NoError(t, fill(filepath.Join(root, "rest")))
	require.ErrorIs(t, change(st, next), unix.ENOSPC)
	holds(was.ID)
	require.NoError(t, os.Remove(filepath.Join(root, "rest")))
	require.NoError(t, change(st, next))
	holds(next.ID)

	// The lock is closed first: a file system cannot become read-only while it is open for writing.
	st.Close()
	require.NoError(t, remount(root, unix.MS_RDONLY))
	st, err = Open(root, spec(), time.Now)
	if err == nil {
		err = st.Lock(t.Context(), nil)
		st.Close()
	}
	require.ErrorIs(t, err, unix.EROFS)
	_, err = pairAt(filepath.Join(root, "web", currentLink))
	require.NoError(t, err)
	require.NoError(t, remount(root, 0))
	st = open(t, root, spec())
	holds(next.ID)
}

// fill writes until the file system is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	return nil
}

func remount(path string, flags uintptr) error {
	return unix.Mount("", path, "", unix.MS_REMOUNT|flags, "size=256k,mode=0755")
}
