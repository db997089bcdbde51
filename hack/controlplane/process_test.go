package controlplane

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatComponentsInherit: no proxy, whatever the case of its name, and the GOGC that is
// asked for in place of the one that is there, with a limit.
func TestWhatComponentsInherit(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("no_proxy", "localhost")
	t.Setenv("GOGC", "50")
	t.Setenv("KEPT", "yes")
	t.Setenv("GOMEMLIMIT", "")
	said := func() string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `echo "$HTTPS_PROXY$no_proxy$KEPT $GOGC $GOMEMLIMIT"`)
		cmd.Env = environment()
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	t.Setenv(envGOGC, "")
	require.Equal(t, "yes 50 \n", said())
	t.Setenv(envGOGC, "400")
	require.Equal(t, "yes 400 768MiB\n", said())
}

// TestWhoEndedAProcess: of one that ended by itself Stop says how, once, with what Go's runtime
// wrote first. One that was killed, or never started, is no error.
func TestWhoEndedAProcess(t *testing.T) {
	run := func(script string) *component {
		p := &component{name: "component", path: "/bin/sh", args: []string{"-c", script}, logFile: filepath.Join(t.TempDir(), "log")}
		require.NoError(t, p.exec())
		return p
	}
	var never *component
	require.NoError(t, never.endedAlone())
	require.NoError(t, (&component{}).endedAlone())

	killed := run("sleep 60")
	require.NoError(t, killed.endedAlone())
	killed.kill()
	require.NoError(t, killed.endedAlone())

	crashed := run(`echo before; echo "fatal error: all goroutines are asleep"; seq 1000; exit 2`)
	<-crashed.done
	crashed.kill()
	err := crashed.endedAlone()
	require.ErrorContains(t, err, "component ended by itself: exit status 2; the end of its log:\n  fatal error: all goroutines are asleep\n  1\n")
	require.NotContains(t, err.Error(), "before")
	require.NoError(t, crashed.endedAlone(), "a second time")
}
