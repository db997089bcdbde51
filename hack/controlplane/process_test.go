package controlplane

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComponentsHaveTheRequestedGOGC(t *testing.T) {
	t.Setenv(envGOGC, "")
	require.Empty(t, environment())
	t.Setenv(envGOGC, "400")
	require.Equal(t, []string{"GOGC=400", "GOMEMLIMIT=768MiB"}, environment())
}

// A component that exits without being killed is an error, once, with the first lines that Go's runtime
// wrote. One that was killed or never started is none.
func TestFailureOfAComponent(t *testing.T) {
	run := func(script string) *component {
		c := &component{}
		c.Label, c.Path, c.Args, c.Log.File = "component", "/bin/sh", []string{"-c", script}, filepath.Join(t.TempDir(), "log")
		c.NoHealth, c.Once = true, true
		require.NoError(t, c.Run())
		return c
	}
	var never *component
	require.NoError(t, never.failure())
	require.NoError(t, (&component{}).failure())

	killed := run("sleep 60")
	require.NoError(t, killed.failure())
	killed.kill()
	require.NoError(t, killed.failure())

	crashed := run(`echo before; echo "fatal error: all goroutines are asleep"; seq 1000; exit 2`)
	<-crashed.Ended()
	crashed.kill()
	err := crashed.failure()
	require.ErrorContains(t, err, "the component ended: exit status 2; the end of its log:\n  fatal error: all goroutines are asleep\n  1\n")
	require.NotContains(t, err.Error(), "before")
	require.NoError(t, crashed.failure(), "a second time")
}
