package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	hundred := samples{}
	for i := 100; i > 0; i-- {
		hundred.took = append(hundred.took, time.Duration(i))
	}
	for _, tc := range []struct {
		s    samples
		q    float64
		want time.Duration
	}{
		{samples{}, 0.5, 0},
		{samples{took: []time.Duration{7}}, 0.5, 7},
		{samples{took: []time.Duration{7}}, 0.99, 7},
		{samples{took: []time.Duration{3, 1, 2}}, 0.5, 2},
		{samples{took: []time.Duration{3, 1, 2}}, 0.99, 3},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
	} {
		assert.Equal(t, tc.want, tc.s.quantile(tc.q), "%d samples, %v", len(tc.s.took), tc.q)
	}
}

func TestChoose(t *testing.T) {
	all, err := choose("")
	require.NoError(t, err)
	assert.Len(t, all, len(attacks()))
	some, err := choose("tarpits,pod-ports")
	require.NoError(t, err)
	require.Len(t, some, 2)
	assert.Equal(t, "pod-ports", some[0].name)
	_, err = choose("tarpits,floods")
	assert.ErrorContains(t, err, `--attacks: "floods": must be of pod-ports, `)
}

func TestParse(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	assert.Equal(t, 2*time.Minute, o.duration)
	_, err = parse([]string{"--duration=1s"})
	assert.EqualError(t, err, "--duration 1s: must be at least 10s")
}

// TestTheAttacksAreDocumented, each once and with its name in its objects' names.
func TestTheAttacksAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/limits.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(doc), "\n## One tenant against another\n")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	names := map[string]bool{}
	for _, a := range attacks() {
		assert.False(t, names[a.name], a.name)
		names[a.name] = true
		assert.Contains(t, documented, a.name, "docs/limits.md")
		assert.NotEmpty(t, a.what)
		assert.NotContains(t, a.what, "\n")
	}
}

func measured() *result {
	r := &result{processes: []processUsage{{name: "signer", limit: 100}}}
	for i := range rows {
		r.rows[i].took = []time.Duration{time.Second}
	}
	return r
}

// TestWhatFails: each is in the exit code, and longer times are not.
func TestWhatFails(t *testing.T) {
	slow := measured()
	slow.rows[rowPod].took[0] = time.Hour
	slow.processes[0].Peak = 100
	assert.Empty(t, report{quiet: measured(), hostile: slow}.failures())

	for want, change := range map[string]func(*result){
		"signer was started again: it ended":                              func(r *result) { r.processes[0].restarts = []string{"it ended"} },
		"signer had 1 MiB resident: its limit is 1 MiB":                   func(r *result) { r.processes[0].Peak = 101 },
		"pod created through the webhook: 1 failed, 0 not within":         func(r *result) { (&r.rows[rowPod]).note(errors.New("x")) },
		"annotated Service until Ready: 0 failed, 1 not within 1m30s: x:": func(r *result) { (&r.rows[rowReady]).note(fmt.Errorf("x: %w", errLate)) },
		"new certificate until seen served: nothing was measured":         func(r *result) { r.rows[rowServed].took = nil },
	} {
		r := measured()
		change(r)
		failures := report{quiet: measured(), hostile: r}.failures()
		require.Len(t, failures, 1, want)
		assert.Contains(t, failures[0], "under attack: ")
		assert.Contains(t, failures[0], want)
	}
}
