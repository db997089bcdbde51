package app

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/timeline"
	"github.com/servingcert/servingcert/pkg/api"
)

// A painted timeline says the same as a plain one, and only a terminal gets more than
// ASCII.
func TestTimelineOnATerminalAndInAFile(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	drawn := timeline.Build(timeline.Input{Now: now, CA: &api.CAStatus{Generations: []api.CAGenerationRecord{{
		Number: 1, Origin: api.OriginOwn, Root: strings.Repeat("ab", 32), Why: "the first\x1b[31m CA", MadeAt: now.Add(-time.Hour), SignsSince: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}}}})
	written := func(output string, s screen) string {
		var out strings.Builder
		s.to = &out
		f := timelineFlags{plugin: &plugin{streams: streams{out: &out, screen: s}}, output: output}
		require.NoError(t, f.write(drawn))
		return out.String()
	}
	file := written("text", screen{})
	assert.Equal(t, file, written("text", screen{columns: fileColumns}), "NO_COLOR")
	painted := written("text", screen{columns: fileColumns, colours: true})
	assert.Contains(t, painted, "\x1b[32m")
	assert.Equal(t, file, regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(painted, ""))
	assert.Contains(t, file, `the first\u001b[31m CA`)
	assert.NotContains(t, file, "█")
	assert.Contains(t, written("text", screen{columns: 80, glyphs: true}), "█")

	var data struct{ APIVersion, Kind string }
	require.NoError(t, json.Unmarshal([]byte(written("json", screen{})), &data))
	assert.Equal(t, struct{ APIVersion, Kind string }{cliVersion, "Timeline"}, data)
}
