package reference

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:generate go test . -run TestThePageIsThatOfTheCode -update

const page = "../../../docs/reference-generated.md"

var update = flag.Bool("update", false, "write docs/reference-generated.md")

// If a metric, event, reason, log message, flag or annotation is added or removed, the page must be generated again.
func TestThePageIsThatOfTheCode(t *testing.T) {
	r, err := Collect("../../..")
	require.NoError(t, err)
	got, err := r.Markdown()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(got), 0o644)) //nolint:gosec // a document
	}
	want, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "outdated: run go test ./test/docs/reference -update")
	// Special cases of each kind.
	assert.Contains(t, got, "| `servingcert_build_info` | gauge | `process`, `version`, `revision`, `goversion` |")
	assert.Contains(t, got, "ConfigMap servingcert-programs is valid or absent", "a constant in a help text")
	assert.Contains(t, got, "| `servingcert_webhook_review_duration_seconds` | histogram | `outcome` |")
	assert.Contains(t, got, "| all three processes | `--metrics-cert-dir` |")
	assert.NotContains(t, got, "| info | reviewed |", "a message at level debug")
	assert.Greater(t, len(r.Logs), 40)
	assert.Greater(t, len(r.Flags), 75)
}
