//go:build alerts

package alerts

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var images = flag.String("images", "", "directory to draw the dashboards into, as they were at the end; empty: they are not drawn")

// dashboard is what of a file of deploy/dashboards is looked at.
type dashboard struct {
	Title  string
	Panels []panel
}

type panel struct {
	Title, Type string
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	lines       []line
}

// line is a series over time.
type line struct {
	legend string
	points [][2]float64 // time, value
}

// showsEveryPanel runs the query of every panel over all that was broken since the start: none may be empty.
func (w *world) showsEveryPanel(t *testing.T, start time.Time) {
	t.Helper()
	files, err := filepath.Glob("../../../deploy/dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	queries, end := 0, time.Now()
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var d dashboard
		require.NoError(t, json.Unmarshal(data, &d))
		for i := range d.Panels {
			for _, target := range d.Panels[i].Targets {
				lines, err := w.over(t.Context(), target.Expr, target.LegendFormat, start, end)
				require.NoError(t, err, "%s: %s", d.Title, d.Panels[i].Title)
				assert.NotEmpty(t, lines, "%s: %s: %s", d.Title, d.Panels[i].Title, target.Expr)
				d.Panels[i].lines = append(d.Panels[i].lines, lines...)
				queries++
			}
		}
		if *images != "" {
			name := strings.TrimSuffix(filepath.Base(file), ".json") + ".svg"
			require.NoError(t, os.WriteFile(filepath.Join(*images, name), d.svg(start, end), 0o644)) //nolint:gosec // a picture
		}
	}
	t.Logf("%d queries of %d dashboards have results", queries, len(files))
}

// hasListedMetrics compares what was scraped with the list that is made of the code.
func (w *world) hasListedMetrics(t *testing.T) {
	t.Helper()
	data, err := w.get(t.Context(), "/api/v1/label/__name__/values", nil)
	require.NoError(t, err)
	var names []string
	require.NoError(t, json.Unmarshal(data, &names))
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

// over returns the result of a panel's query, with what Grafana puts in place of its variables.
func (w *world) over(ctx context.Context, expr, legend string, start, end time.Time) ([]line, error) {
	expr = strings.NewReplacer("$cluster", ".*", "$__rate_interval", "20s").Replace(expr)
	data, err := w.get(ctx, "/api/v1/query_range", url.Values{
		"query": {expr}, "step": {"2"}, "start": {start.UTC().Format(time.RFC3339)}, "end": {end.UTC().Format(time.RFC3339)},
	})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, err
	}
	var lines []line
	for _, r := range answer.Result {
		l := line{legend: legend}
		for k, v := range r.Metric {
			l.legend = strings.ReplaceAll(l.legend, "{{"+k+"}}", v)
		}
		for _, point := range r.Values {
			at, _ := point[0].(float64)
			value, err := strconv.ParseFloat(fmt.Sprint(point[1]), 64)
			if err != nil {
				return nil, err
			}
			if value == value { // a quantile of nothing is NaN
				l.points = append(l.points, [2]float64{at, value})
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}
