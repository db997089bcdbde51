package programs

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

var update = flag.Bool("update", false, "write docs/programs.md from the table")

const (
	pageFile  = "../../../docs/programs.md"
	pageBegin = "<!-- written by go test ./pkg/mutate/programs -run TestPage -update -->\n"
	pageEnd   = "<!-- end -->\n"
	// runFile lists the programs that make programs runs.
	runFile = "../../../test/programs/run.txt"
)

// examples are links for programs that a person must configure. They are only on the page: the
// webhook's warnings cannot show links.
var examples = map[string]string{
	"envoy": " [Example](serving-from-a-program.md#envoy).",
	"nginx": " [Script that reloads it](serving-from-a-program.md#nginx), or [a proxy](tls-beside-plaintext.md).",
}

// TestPage compares the lists in docs/programs.md with the table.
func TestPage(t *testing.T) {
	data, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(data), pageBegin)
	require.True(t, ok, "the mark before the lists is gone")
	have, after, ok := strings.Cut(rest, pageEnd)
	require.True(t, ok, "the mark after the lists is gone")
	list, err := os.ReadFile(runFile)
	require.NoError(t, err)
	want := page(Builtin(), strings.Fields(string(list)))
	if *update {
		require.NoError(t, os.WriteFile(pageFile, []byte(before+pageBegin+want+pageEnd+after), 0o644))
		have = want
	}
	assert.Equal(t, want, have, "run with -update to write it")
}

// page returns the lists: programs that take their certificate from flags or variables, and those that a
// person must configure. Programs with the same settings share a row. ran are the names of the programs that
// make programs runs. Sources are in the table itself.
func page(table Table, ran []string) string {
	list := slices.Clone(table.All())
	slices.SortFunc(list, func(a, b Program) int { return strings.Compare(a.Name, b.Name) })
	var told, none rows
	counts := map[Reload]int{}
	for i := range list {
		p := &list[i]
		if !p.Takes() {
			none.add(titleOf(p), cell(p.None)+examples[p.Name])
			continue
		}
		counts[p.Reload]++
		name := titleOf(p)
		if slices.Contains(ran, p.Name) {
			name += " ✓"
		}
		told.add(name, given(p)+" | "+reload(p))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %d programs that take flags or variables\n\n", told.programs)
	fmt.Fprintf(&b, "%d take up a renewed certificate by themselves, %d on a signal, %d on a request; %d only when they start again: give those\n`servingcert.dev/on-rotate: restart`. `make programs` runs those with ✓, and renews their certificates.\n\n",
		counts[ReloadItself], counts[ReloadSignal], counts[ReloadRequest], counts[ReloadRestart])
	b.WriteString("| program, from which version | what its container gets | reads a renewed certificate |\n|---|---|---|\n" + told.String())
	fmt.Fprintf(&b, "\n## %d programs for which a person has to do something\n\n", none.programs)
	b.WriteString("| program | what to do |\n|---|---|\n" + none.String())
	return b.String()
}

// rows are those of a list, with the names of the programs that share each.
type rows struct {
	programs int
	order    []string
	names    map[string][]string
}

func (r *rows) add(name, rest string) {
	r.programs++
	if r.names == nil {
		r.names = map[string][]string{}
	}
	if r.names[rest] == nil {
		r.order = append(r.order, rest)
	}
	r.names[rest] = append(r.names[rest], name)
}

func (r *rows) String() string {
	var b strings.Builder
	for _, rest := range r.order {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(r.names[rest], ", "), rest)
	}
	return b.String()
}

// titleOf returns a program's name, its other names, and its first version.
func titleOf(p *Program) string {
	same := func(a, b string) bool { return strings.ReplaceAll(a, "_", "-") == strings.ReplaceAll(b, "_", "-") }
	var others []string
	for _, name := range slices.Concat(p.Images, p.Executables) {
		if !same(name, p.Name) && !slices.ContainsFunc(others, func(o string) bool { return same(o, name) }) {
			others = append(others, name)
		}
	}
	if len(p.Arguments) > 0 {
		others = append(others, fmt.Sprintf("with two of %#q", strings.Join(p.Arguments, " ")))
	}
	text := "**" + p.Name + "**"
	if len(others) > 0 {
		text += " (" + strings.Join(others, ", ") + ")"
	}
	if p.Since != "" && p.Takes() {
		text += " " + p.Since
	}
	return text
}

func given(p *Program) string {
	var lines []string
	if p.Mount != "" {
		lines = append(lines, "the files in `"+p.Mount+"` too, unless something is mounted there")
	}
	if len(p.Flags) > 0 {
		lines = append(lines, "`"+cell(strings.Join(p.Flags, " "))+"`")
	}
	for _, v := range p.Env {
		lines = append(lines, "`"+cell(v.Name+"="+v.Value)+"`")
	}
	for _, name := range sorted(p.Config) {
		lines = append(lines, "file `"+name+"`")
	}
	for _, name := range sorted(p.Files) {
		lines = append(lines, "file `"+name+"`, which is `"+p.Files[name]+"`")
	}
	if len(p.Ports) > 0 {
		lines = append(lines, "TLS on port "+strings.Trim(fmt.Sprint(p.Ports), "[]"))
	}
	if p.Moves {
		lines = append(lines, "and on no other: only where the Service leads there")
	}
	for _, name := range sorted(p.Unless) {
		lines = append(lines, "nothing with `"+name+"`: "+cell(p.Unless[name]))
	}
	if p.PrivateKey {
		lines = append(lines, "only with an fsGroup")
	}
	for f := range p.Formats().Formats() {
		lines = append(lines, "only with `"+api.AnnotationFormats+": "+f.Word+"` on the Service")
	}
	if p.Note != "" {
		lines = append(lines, cell(p.Note))
	}
	return strings.Join(lines, "<br>")
}

func sorted(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func reload(p *Program) string {
	how := map[Reload]string{ReloadItself: "itself", ReloadSignal: "signal", ReloadRequest: "request", ReloadRestart: "restart"}[p.Reload]
	if p.ReloadHow != "" {
		how += ": " + cell(p.ReloadHow)
	}
	return how
}

// cell returns a text as a table cell.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", ">", "&gt;").Replace(strings.TrimSpace(s))
}
