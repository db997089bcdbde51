package certmanager_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/certmanager"
	"github.com/servingcert/servingcert/pkg/preview"
)

var update = flag.Bool("update", false, "write the goldens")

func migrate(t *testing.T, name, input string) (string, certmanager.Result) {
	t.Helper()
	docs, err := preview.Parse(name, []byte(input))
	require.NoError(t, err)
	r, err := certmanager.Migrate(docs, certmanager.Options{})
	require.NoError(t, err)
	return string(preview.Join(r.Docs)), r
}

// TestGoldens: manifests as kubebuilder and charts write them, what becomes of them, and
// what is said. What was converted is not touched again.
func TestGoldens(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, in := range inputs {
		name := strings.TrimSuffix(filepath.Base(in), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			input, err := os.ReadFile(in)
			require.NoError(t, err)
			out, r := migrate(t, name+".yaml", string(input))
			var said strings.Builder
			for _, f := range r.Findings {
				what := map[bool]string{true: "kept", false: "note"}[f.Kept]
				_, _ = fmt.Fprintf(&said, "%s: %s:%d: %s: %s\n", what, f.File, f.Line, f.Object(), f.Why)
			}
			for ext, got := range map[string]string{".out.yaml": out, ".txt": said.String()} {
				path := "testdata/" + name + ext
				if *update {
					require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
				}
				want, err := os.ReadFile(path)
				require.NoError(t, err)
				assert.Equal(t, string(want), got)
			}
			again, _ := migrate(t, name+".yaml", out)
			assert.Equal(t, out, again)
		})
	}
}
