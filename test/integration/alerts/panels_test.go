//go:build alerts

package alerts

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/promtest"
)

var images = flag.String("images", "", "directory to draw the dashboards into, as they were at the end; empty: they are not drawn")

// panel is one of a dashboard's, with what its queries returned.
type panel struct {
	promtest.Panel
	lines []line
}

// line is a series over time.
type line struct {
	legend string
	points []promtest.Point
}

// showsEveryPanel runs the query of every panel over all that was broken since the start: none may be empty.
func (w *world) showsEveryPanel(t *testing.T, start time.Time) {
	t.Helper()
	dashboards, err := promtest.Dashboards("../../../deploy/dashboards")
	require.NoError(t, err)
	queries, end := 0, time.Now()
	for _, d := range dashboards {
		var panels []panel
		for _, p := range d.Panels {
			drawn := panel{Panel: p}
			for _, target := range p.Targets {
				series, err := w.api().Range(t.Context(), promtest.Expr(target.Expr), start, end)
				require.NoError(t, err, "%s: %s", d.Title, p.Title)
				assert.True(t, promtest.Shows(series), "%s: %s: nothing to show: %s", d.Title, p.Title, target.Expr)
				drawn.lines = append(drawn.lines, lines(series, target.LegendFormat)...)
				queries++
			}
			panels = append(panels, drawn)
		}
		if *images != "" {
			require.NoError(t, os.WriteFile(filepath.Join(*images, d.Name+".svg"), svg(d.Title, panels, start, end), 0o644)) //nolint:gosec // a picture
		}
	}
	t.Logf("%d queries of %d dashboards have results", queries, len(dashboards))
}

// lines are the series with their legends.
func lines(series []promtest.Series, legend string) []line {
	var all []line
	for _, s := range series {
		l := line{legend, s.Points}
		for name, value := range s.Labels {
			l.legend = strings.ReplaceAll(l.legend, "{{"+name+"}}", value)
		}
		all = append(all, l)
	}
	return all
}

// hasListedMetrics compares what was scraped with the list that is made of the code.
func (w *world) hasListedMetrics(t *testing.T) {
	t.Helper()
	var names []string
	require.NoError(t, w.api().Get(t.Context(), "/api/v1/label/__name__/values", nil, &names))
	page, err := os.ReadFile("../../../docs/reference-generated.md")
	require.NoError(t, err)
	seen := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "servingcert_") {
			continue
		}
		seen++
		listed := false
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} { // of histograms
			listed = listed || strings.Contains(string(page), "| `"+strings.TrimSuffix(name, suffix)+"` |")
		}
		assert.True(t, listed, "docs/reference-generated.md has no metric %s", name)
	}
	assert.Greater(t, seen, 35)
}
