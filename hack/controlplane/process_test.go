package controlplane

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatComponentsInherit: no proxy, whatever the case of its name, and the GOGC that is
// asked for in place of the one that is there.
func TestWhatComponentsInherit(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("no_proxy", "localhost")
	t.Setenv("GOGC", "50")
	t.Setenv("KEPT", "yes")
	said := func() string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `echo "$HTTPS_PROXY$no_proxy$KEPT $GOGC"`)
		cmd.Env = environment()
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	t.Setenv(envGOGC, "")
	require.Equal(t, "yes 50\n", said())
	t.Setenv(envGOGC, "400")
	require.Equal(t, "yes 400\n", said())
}
