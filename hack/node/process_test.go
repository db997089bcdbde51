package node

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
)

func TestMarks(t *testing.T) {
	nul := func(parts ...string) []byte { return []byte(strings.Join(parts, "\x00") + "\x00") }
	marked := nul("PATH=/bin", envNode+"=/var/lib/n", envComponent+"=etcd")
	for _, tc := range []struct {
		name             string
		environ, cmdline []byte
		want             component
	}{
		{"a component", marked, nul("/cache/etcd", "--name=default"), component{dir: "/var/lib/n", name: "etcd"}},
		{"a child of a component", marked, nul("/usr/bin/sh", "-c", "etcd"), component{}},
		{"before exec", marked, nul("setsid", "--fork", "/cache/etcd"), component{}},
		{"the same program without variables", nul("PATH=/bin"), nul("/cache/etcd"), component{}},
		{"similar variables", nul("X"+envNode+"=/var/lib/n", envComponent+"=etcd"), nul("/cache/etcd"), component{}},
		{"no name of a component", nul(envNode + "=/var/lib/n"), nul("/cache/etcd"), component{}},
		{"a zombie, or a kernel thread", nil, nil, component{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, marks(tc.environ, tc.cmdline))
		})
	}
}

func TestEnvironmentHasNoProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy:3128")
	t.Setenv("no_proxy", "localhost")
	t.Setenv("MY_PROXY_SETTING", "kept")
	env := strings.Join(environment("/n", "etcd"), "\n")
	require.NotContains(t, env, "HTTPS_PROXY=")
	require.NotContains(t, env, "no_proxy=")
	require.Contains(t, env, "MY_PROXY_SETTING=kept")
	require.Contains(t, env, envNode+"=/n\n"+envComponent+"=etcd")
}

// A process is not killed if its ID was reused.
func TestKillOnlyWhatIsOurs(t *testing.T) {
	dir := t.TempDir()
	start := func(env []string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sleep", "600")
		cmd.Env = env
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	other, ours := start(os.Environ()), start(environment(dir, "sleep"))

	require.NoError(t, kill(other.Process.Pid, dir, "sleep"))
	require.NoError(t, kill(ours.Process.Pid, dir, "etcd"), "another component")
	require.EventuallyWithT(t, func(c *assert.CollectT) { // after exec
		pids, err := running(dir)
		require.NoError(c, err)
		require.Equal(c, map[string]int{"sleep": ours.Process.Pid}, pids)
	}, process.Soon, pollInterval)
	require.NoError(t, kill(ours.Process.Pid, dir, "sleep"))
	require.ErrorContains(t, ours.Wait(), "killed")
	require.NoError(t, other.Process.Signal(syscall.Signal(0)), "still running")
}

// A killed process has ended, before and after it was waited for.
func TestEnded(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	require.False(t, ended(pid))
	require.False(t, ended(os.Getpid()), "it has more than one thread")
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return ended(pid) }, process.Soon, pollInterval)
	require.Error(t, cmd.Wait())
	require.True(t, ended(pid))
}

func TestMissingPackages(t *testing.T) {
	have := func(missing ...string) func(string) (string, error) {
		return func(program string) (string, error) {
			for _, m := range missing {
				if strings.HasSuffix(program, m) {
					return "", errors.New("not found")
				}
			}
			return program, nil
		}
	}
	t.Setenv("PATH", "/bin")
	require.NoError(t, missingPackages(have()))
	require.EqualError(t, missingPackages(have("containerd", "ctr", "ptp", "host-local")),
		"a node needs containerd, ctr, /usr/lib/cni/ptp, /usr/lib/cni/host-local, not found in PATH=/bin: "+
			"apt-get install --no-install-recommends containerd containernetworking-plugins")
}

func TestOtherNodes(t *testing.T) {
	program, here, there := filepath.Join(t.TempDir(), holder), t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink("/bin/sleep", program))
	cmd := exec.CommandContext(t.Context(), program, "600")
	cmd.Env = environment(there, holder)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		others, err := otherNodes(here)
		require.NoError(c, err)
		require.Contains(c, others, there) // the machine may run other nodes
	}, process.Soon, pollInterval)
	others, err := otherNodes(there)
	require.NoError(t, err)
	require.NotContains(t, others, there)
}
