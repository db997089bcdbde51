package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
)

func TestParse(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	assert.Equal(t, 500, o.services)
	o, err = parse([]string{"--short", "--services=60"})
	require.NoError(t, err)
	assert.Equal(t, 60, o.services)
	assert.Equal(t, 3*time.Second, o.hold)
	assert.Len(t, o.faults, len(breakages())-5)
	o, err = parse([]string{"--short", "--faults=clock-behind"})
	require.NoError(t, err)
	assert.Equal(t, 150, o.services)
	assert.Len(t, o.faults, 1)
	for args, want := range map[string]string{
		"--faults=floods": `--faults: "floods": must be of ` + strings.Join(names(), ", "),
		"--services=1":    "--services 1: must be at least 50",
		"--namespaces=99": "--namespaces 99: must be 1 to 50",
		"--hold=1ms":      "--hold 1ms: must be at least 1s",
	} {
		_, err = parse([]string{args})
		assert.EqualError(t, err, want)
	}
}

func names() (all []string) {
	for _, b := range breakages() {
		all = append(all, b.name)
	}
	return all
}

// TestTheFaultsAreDocumented, each once.
func TestTheFaultsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(doc), "\n## What is broken\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	for _, b := range breakages() {
		assert.NotEmpty(t, b.what)
	}
	assert.Equal(t, names(), documented)
}

// TestWhatFails: what was violated in one fault, and in the whole run.
func TestWhatFails(t *testing.T) {
	r := &report{rows: []row{
		{breakage: breakage{name: "etcd"}, held: time.Second, admissions: invariant.Admissions{Admitted: 7, Refused: 3}},
		{breakage: breakage{name: "disk-full"}, said: "not done: it takes root"},
	}}
	assert.Empty(t, r.failures())
	assert.Empty(t, (*report)(nil).failures())
	r.rows[0].violations, r.violations = []string{"x"}, []string{"y"}
	assert.Equal(t, []string{"etcd: x", "y"}, r.failures())

	var out strings.Builder
	r.print(&out)
	assert.Regexp(t, `\| etcd +\| 1\.0 s +\| .*\| 7 +\| 3 +\|`, out.String())
	assert.Regexp(t, `\| disk-full \| not done \|`, out.String())
	assert.Contains(t, out.String(), "disk-full: not done: it takes root\n")
}
