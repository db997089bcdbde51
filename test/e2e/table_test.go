//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// shown are the scenes in the table, and figures the lines below it.
var (
	shown   []*scene
	figures []string
)

// measure adds the time until new certificates were served, as seen by the clients and by the rotator.
func (c *cluster) measure(t *testing.T, scenes []*scene) {
	took, err := c.propagation(t.Context(), scenes)
	require.NoError(t, err)
	if len(took) == 0 {
		return // no running scene reloads
	}
	figures = append(figures, "from the write of a Secret to the pod that serves it (seen by a client once a second), "+spread(took))
	line, err := c.propagationAsTheRotatorSaw(t.Context())
	require.NoError(t, err)
	figures = append(figures, line)
}

// propagationAsTheRotatorSaw reads the rotator's histogram.
func (c *cluster) propagationAsTheRotatorSaw(ctx context.Context) (string, error) {
	const name = "servingcert_propagation_seconds"
	metrics, err := c.scrape(ctx, "rotator", name)
	if err != nil {
		return "", err
	}
	var count uint64
	var sum float64
	buckets := map[float64]uint64{}
	for _, m := range metrics {
		h := m.GetHistogram()
		count += h.GetSampleCount()
		sum += h.GetSampleSum()
		for _, b := range h.GetBucket() {
			buckets[b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	if count == 0 {
		return "", fmt.Errorf("%s: no observations", name)
	}
	return fmt.Sprintf("%s: %d times, mean %.1f s, half within %g s, all within %g s", name, count, sum/float64(count), within(buckets, count/2), within(buckets, count)), nil
}

// within returns the smallest bound of a bucket with at least n observations.
func within(buckets map[float64]uint64, n uint64) float64 {
	least := math.Inf(1)
	for bound, below := range buckets {
		if below >= n {
			least = min(least, bound)
		}
	}
	return least
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// printTable prints the results of the scenes.
func printTable(out io.Writer) {
	_, _ = fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SCENE\tRESULT\tTOOK\tABOUT")
	for _, s := range shown {
		result := "passed"
		switch {
		case s.left != "":
			result = "left out"
		case s.failed:
			result = "FAILED"
		case s.took == 0:
			result = "not run"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.name, result, seconds(s.took), s.about)
		for _, note := range append(s.notes, s.left) {
			if note != "" {
				_, _ = fmt.Fprintf(w, "\t\t\t  %s\n", note)
			}
		}
	}
	_ = w.Flush()
	_, _ = fmt.Fprintln(out, "\n"+strings.Join(figures, "\n"))
}
