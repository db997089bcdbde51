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

// endable is a test that ends when the test wants.
type endable struct {
	testing.TB
	end    func()
	logged int
}

func (e *endable) Cleanup(f func()) { e.end = f }
func (e *endable) Log(...any)       { e.logged++ }

func TestLoggerIsSilentOnceTheTestEnded(t *testing.T) {
	test := &endable{TB: t}
	log := Logger(test)
	log.Info("before")
	require.Equal(t, 1, test.logged)
	test.end()
	log.Info("after")
	log.WithName("named").Error(os.ErrClosed, "after")
	require.Equal(t, 1, test.logged)
}
