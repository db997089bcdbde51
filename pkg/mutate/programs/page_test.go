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
// person must configure. ran are the names of the programs that make programs runs.
func page(table Table, ran []string) string {
	list := slices.Clone(table.All())
	slices.SortFunc(list, func(a, b Program) int { return strings.Compare(a.Name, b.Name) })
	var told, none strings.Builder
	counts := map[Reload]int{}
	for i := range list {
		p := &list[i]
		name := `<a id="` + p.Name + `"></a>**` + p.Name + "**"
		sources := sourcesOf(p)
		if !p.Takes() {
			fmt.Fprintf(&none, "| %s%s | %s%s | %s |\n", name, namesOf(p), cell(p.None), examples[p.Name], sources)
			continue
		}
		counts[p.Reload]++
		fmt.Fprintf(&told, "| %s%s | %s | %s | %s |\n", name, namesOf(p), given(p), reload(p)+seen(p, ran), sources)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %d programs that take flags or variables\n\n", strings.Count(told.String(), "\n"))
	fmt.Fprintf(&b, "%d take up a renewed certificate by themselves, %d on a signal, %d on a request; %d only when they start again: give those\n`servingcert.dev/on-rotate: restart`. Where it says \"seen\", `make programs` runs the program with what its container gets, and renews the certificate.\n\n",
		counts[ReloadItself], counts[ReloadSignal], counts[ReloadRequest], counts[ReloadRestart])
	b.WriteString("| program, its images and executables | what its container gets | reads a renewed certificate | read |\n|---|---|---|---|\n" + told.String())
	fmt.Fprintf(&b, "\n## %d programs for which a person has to do something\n\n", strings.Count(none.String(), "\n"))
	b.WriteString("| program, its images and executables | what to do | read |\n|---|---|---|\n" + none.String())
	return b.String()
}

func namesOf(p *Program) string {
	names := slices.Clone(p.Images)
	for _, e := range p.Executables {
		if !slices.Contains(names, e) {
			names = append(names, e)
		}
	}
	if len(p.Arguments) > 0 {
		names = append(names, fmt.Sprintf("with two of %#q", strings.Join(p.Arguments, " ")))
	}
	if len(names) == 1 && names[0] == p.Name {
		return ""
	}
	return "<br>" + strings.Join(names, ", ")
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
	how := map[Reload]string{ReloadItself: "by itself", ReloadSignal: "on a signal", ReloadRequest: "on request", ReloadRestart: "when it starts again"}[p.Reload]
	if p.ReloadHow != "" {
		how += ": " + cell(p.ReloadHow)
	}
	return how
}

func seen(p *Program, ran []string) string {
	if !slices.Contains(ran, p.Name) {
		return ""
	}
	return "; seen"
}

func sourcesOf(p *Program) string {
	links := make([]string, len(p.Sources))
	for i, s := range p.Sources {
		links[i] = fmt.Sprintf("[%d](%s)", i+1, s)
	}
	since := ""
	if p.Since != "" {
		since = "from " + p.Since + "; read in "
	}
	return since + cell(p.Versions) + " " + strings.Join(links, " ")
}

// cell returns a text as a table cell.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", ">", "&gt;").Replace(strings.TrimSpace(s))
}
