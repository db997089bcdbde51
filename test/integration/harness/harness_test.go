package harness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramsThatMakeBuiltAreTaken(t *testing.T) {
	built, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(built, "signer"), []byte("of make"), 0o600))
	t.Setenv(envPrograms, built)
	for range 2 { // go build may be repeated as well
		require.NoError(t, Build(t.Context(), dir, "signer"))
	}
	content, err := os.ReadFile(filepath.Join(dir, "signer"))
	require.NoError(t, err)
	require.Equal(t, "of make", string(content))

	err = Build(t.Context(), dir, "rotator")
	require.ErrorContains(t, err, "SERVINGCERT_TEST_PROGRAMS: ")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestProgramsAreBuilt(t *testing.T) {
	t.Setenv(envPrograms, "")
	dir := t.TempDir()
	require.NoError(t, Build(t.Context(), dir, "webhook"))
	require.FileExists(t, filepath.Join(dir, "webhook"))
	require.NoFileExists(t, filepath.Join(dir, "signer"))
	require.ErrorContains(t, Build(t.Context(), dir, "none"), "build cmd/none: exit status 1")
}
