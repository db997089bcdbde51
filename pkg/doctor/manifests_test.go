package doctor

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/preview"
)

var update = flag.Bool("update", false, "write the goldens and docs/checks.md")

func analyzed(t *testing.T, file string, opts Options) Report {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	docs, err := preview.Parse(file, data)
	require.NoError(t, err)
	opts.Limits = api.DefaultLimits()
	r, err := Analyze(t.Context(), docs, opts)
	require.NoError(t, err)
	return r
}

// lines returns the findings that are not OK, for people.
func lines(r Report) string {
	var b strings.Builder
	for _, f := range r.AtLeast(Info) {
		fmt.Fprintf(&b, "%s: %s %s %s: %s\n    %s\n", f.Where(), f.Level, f.ID, f.Object, f.Message, f.Fix)
	}
	return b.String()
}

func TestAnalyze(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			got := lines(analyzed(t, filepath.Base(file), Options{}))
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), got)
		})
	}
}
