package actions

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/test/skip"
)

func store(a hostfiles.Action, timeout time.Duration) *hostfiles.Store {
	a.Timeout = timeout
	return &hostfiles.Store{Name: "web", Action: a}
}

func TestExec(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("SECRET", "not passed on")
	require.NoError(t, Run(t.Context(), store(hostfiles.Action{Exec: []string{"/bin/sh", "-c", "env > " + out}}, time.Minute), "a"))
	env, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Contains(t, string(env), "SERVINGCERT_STORE=web")
	assert.NotContains(t, string(env), "SECRET")
	err = Run(t.Context(), store(hostfiles.Action{Exec: []string{"/bin/sh", "-c", "echo no such unit >&2; exit 3"}}, time.Minute), "a")
	require.EqualError(t, err, `exit status 3: "no such unit"`)
	pid := filepath.Join(t.TempDir(), "pid")
	endless := []string{"/bin/sh", "-c", "setsid sleep 600 & echo $! > " + pid + "; wait"} // in its own process group
	require.ErrorContains(t, Run(t.Context(), store(hostfiles.Action{Exec: endless}, 100*time.Millisecond), "a"), "timed out after 100ms")
	// The first program may be killed before it forks. This one is killed after that.
	_ = os.Remove(pid)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, store(hostfiles.Action{Exec: endless}, time.Hour), "a") }()
	var forked string
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(pid)
		forked = strings.TrimSpace(string(text))
		return err == nil && forked != ""
	}, process.Soon, 10*time.Millisecond)
	cancel()
	require.Error(t, <-ended)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + forked + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, process.Soon, 10*time.Millisecond, "the forked process is killed too")
}

func TestSignal(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "600")
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	file := filepath.Join(t.TempDir(), "pid")
	s := store(hostfiles.Action{Signal: &hostfiles.Signal{PIDFile: file, Signal: "TERM"}}, time.Minute)
	require.ErrorContains(t, Run(t.Context(), s, "a"), "no such file")
	require.NoError(t, os.WriteFile(file, []byte("1\n"), 0o600))
	require.ErrorContains(t, Run(t.Context(), s, "a"), "must contain a process id above 1")
	require.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
	old := time.Now().Add(-10 * time.Second)
	require.NoError(t, os.Chtimes(file, old, old))
	require.ErrorContains(t, Run(t.Context(), s, "a"), "the id was reused")
	now := time.Now()
	require.NoError(t, os.Chtimes(file, now, now))
	require.NoError(t, Run(t.Context(), s, "a"))
	require.EqualError(t, cmd.Wait(), "signal: terminated")
}

// A user who can write the file cannot make hostsync signal another user's process.
func TestSignalOfAFileThatIsNotRoots(t *testing.T) {
	skip.WithoutRoot(t, "gives a file to another user")
	const nobody = 65534
	run := func(uid uint32) (*exec.Cmd, string) {
		cmd := exec.Command("/bin/sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		file := filepath.Join(t.TempDir(), "pid")
		require.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
		require.NoError(t, os.Chown(file, nobody, nobody))
		return cmd, file
	}
	signal := func(file string) error {
		return Run(t.Context(), store(hostfiles.Action{Signal: &hostfiles.Signal{PIDFile: file, Signal: "TERM"}}, time.Minute), "a")
	}
	_, file := run(0)
	require.ErrorContains(t, signal(file), "user 65534 can write it, but process")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(file, link))
	require.ErrorContains(t, signal(link), "is not a regular file")
	own, file := run(nobody)
	require.NoError(t, signal(file))
	require.EqualError(t, own.Wait(), "signal: terminated")
}

func TestStaticPod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kind: Pod\nmetadata:\n  name: a\n"), 0o640))
	s := store(hostfiles.Action{StaticPod: &hostfiles.StaticPod{Manifest: file}}, time.Minute)
	require.NoError(t, Run(t.Context(), s, "abc-1"))
	first, err := os.Stat(file)
	require.NoError(t, err)
	assert.EqualValues(t, 0o640, first.Mode())
	require.NoError(t, Run(t.Context(), s, "abc-1"))
	again, err := os.Stat(file)
	require.NoError(t, err)
	assert.True(t, os.SameFile(first, again), "the same attempt changes nothing")
	require.NoError(t, Run(t.Context(), s, "abc-2"))
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}
