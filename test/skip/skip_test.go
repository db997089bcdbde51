package skip

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSkippedTestsAreWrittenDown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(envSkipped, file)
	skipped := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			defer func() { assert.True(t, t.Skipped()) }()
			test(t)
		})
	}
	skipped("now", func(t *testing.T) { Now(t, "for a reason") })
	skipped("programs", func(t *testing.T) { WithoutPrograms(t, "go", "no-such-command") })
	Part(t, "a part")
	WithoutPrograms(t, "go")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, t.Name()+"/now for a reason\n"+t.Name()+"/programs no-such-command is not installed\n"+t.Name()+" a part\n", string(content))
	require.Error(t, addLine(filepath.Join(file, "none"), "three"))
}

func TestWithoutAFileNothingIsWritten(t *testing.T) {
	t.Setenv(envSkipped, "")
	Part(t, "for a reason")
}
