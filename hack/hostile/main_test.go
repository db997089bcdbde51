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

func TestParse(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	assert.Equal(t, 2*time.Minute, o.duration)
	_, err = parse([]string{"--duration=1s"})
	assert.EqualError(t, err, "--duration 1s: must be at least 10s")
	_, err = parse([]string{"--attacks=floods"})
	assert.ErrorContains(t, err, `--attacks: "floods": must be of pod-ports, `)
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
