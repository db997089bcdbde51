package process

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAProgramRunsInThisExecutable(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), programs.Path(t, "repeats"), "-test.v", "--flag")
	out, err := cmd.Output()
	require.Error(t, err)
	assert.Equal(t, 3, cmd.ProcessState.ExitCode())
	assert.Equal(t, "[-test.v --flag]\n", string(out), "the program gets the arguments")

	dir := t.TempDir()
	unknown := filepath.Join(dir, "other")
	require.NoError(t, Programs{"other": nil}.Link(dir))
	out, err = exec.CommandContext(t.Context(), unknown).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), `started as "other": not a program of this test`)

	require.NoError(t, programs.Link(dir))
	require.NoError(t, programs.Link(dir), "a second time")
}
