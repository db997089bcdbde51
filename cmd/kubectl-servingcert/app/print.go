package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"golang.org/x/term"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/progress"
	"github.com/servingcert/servingcert/pkg/api"
)

// cliVersion is the apiVersion of what -o json and -o yaml print. Fields are added to
// it; one that changes or goes makes a new version.
const cliVersion = "cli.servingcert.dev/v1"

// header stands first in what -o json and -o yaml print.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func headerOf(kind string) header { return header{cliVersion, kind} }

// jsonPath begins a value of -o with a template, as kubectl get takes it.
const jsonPath = "jsonpath="

// isData reports whether -o asks for data: json, yaml or jsonpath=TEMPLATE.
func isData(output string) bool {
	return output == "json" || output == "yaml" || strings.HasPrefix(output, jsonPath)
}

// writeData writes v in the format of -o, for which isData is true.
func writeData(w io.Writer, output string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if template, ok := strings.CutPrefix(output, jsonPath); ok {
		return writeJSONPath(w, template, data)
	}
	data = append(data, '\n')
	if output == "yaml" {
		if data, err = marshalYAML(v); err != nil {
			return err
		}
	}
	_, err = w.Write(data)
	return err
}

// marshalYAML is yaml.Marshal, with the escape sequences of YAML for characters that a terminal
// obeys or that make text look like another. They are in quotes: the value stays what it is.
func marshalYAML(v any) ([]byte, error) {
	data, err := yaml.Marshal(v)
	if text := string(data); err != nil || api.EscapeLines(text) == text {
		return data, err
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	quote(&root)
	var out strings.Builder
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return nil, err
	}
	return []byte(api.EscapeLines(out.String())), nil
}

// quote has each text in quotes that has characters to escape.
func quote(n *yamlv3.Node) {
	if n.Kind == yamlv3.ScalarNode && api.EscapeLines(n.Value) != n.Value {
		n.Style = yamlv3.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quote(child)
	}
}

// writeJSONPath writes what the template finds in data. As with kubectl get, a field that
// is missing is empty, and no line break is added.
func writeJSONPath(w io.Writer, template string, data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return err
	}
	return path.Execute(w, v)
}

// style is how text is painted: parameters of SGR (ECMA-48, 8.3.117); "" is not at all.
type style string

const (
	plain style = ""
	bad   style = "31" // red
	good  style = "32" // green
	doubt style = "33" // yellow
)

// screen is where text for people goes. Colours only repeat what the words say.
type screen struct {
	to      io.Writer // not escaped: whoever writes to it escapes
	colours bool
	glyphs  bool
	columns int // 0: it is not a terminal that can be drawn on
}

// screenOf returns how to write to a file, by what it is and by the environment:
// NO_COLOR (no-color.org), TERM, and the locale.
func screenOf(file *os.File, getenv func(string) string) screen {
	s := screen{to: file}
	if !term.IsTerminal(int(file.Fd())) || getenv("TERM") == "dumb" || getenv("TERM") == "" {
		return s
	}
	s.columns = 80
	if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
		s.columns = columns
	}
	if getenv("NO_COLOR") != "" {
		return s
	}
	s.colours = true
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // the first that is set counts (locale(7))
		if value := strings.ToLower(getenv(name)); value != "" {
			s.glyphs = strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
			break
		}
	}
	return s
}

// paint returns text escaped and, if the screen has colours, painted.
func (s screen) paint(text string, how style) string {
	text = api.Escape(text)
	if !s.colours || how == plain || text == "" {
		return text
	}
	return "\x1b[" + string(how) + "m" + text + "\x1b[0m"
}

// cell is one field of a table.
type cell struct {
	text string
	how  style
}

// cells returns texts that are not painted.
func cells(texts ...string) []cell {
	out := make([]cell, len(texts))
	for i, text := range texts {
		out[i] = cell{text: text}
	}
	return out
}

// table writes rows in columns. Its zero value is ready.
type table struct{ widths []int }

// write writes rows. Columns are as wide as in what was written before, at least.
func (t *table) write(s screen, rows ...[]cell) error {
	for _, row := range rows {
		for i, c := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(api.Escape(c.text)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, c := range row {
			b.WriteString(s.paint(c.text, c.how))
			if i < len(row)-1 { // two spaces between columns, and none at the end
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(api.Escape(c.text))+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(s.to, b.String())
	return err
}

// outputs says which values of -o a verb allows.
type outputs []string

func (o outputs) validate(value string) error {
	if slices.Contains(o, value) && value != jsonPath+"TEMPLATE" {
		return nil
	}
	if template, ok := strings.CutPrefix(value, jsonPath); ok && slices.Contains(o, jsonPath+"TEMPLATE") {
		if err := jsonpath.New("output").Parse(template); err != nil {
			return usagef("-o %q: %w", value, err)
		}
		return nil
	}
	return usagef("-o %q%s: must be %s", value, meant(value, o), o)
}

// String returns the values as they are listed in a sentence.
func (o outputs) String() string {
	last := len(o) - 1
	return fmt.Sprintf("%s or %s", strings.Join(o[:last], ", "), o[last])
}

// completions returns the values as a shell completes them: whoever wants a template writes it.
func (o outputs) completions() []string {
	values := slices.Clone(o)
	for i, value := range values {
		values[i] = strings.TrimSuffix(value, "TEMPLATE")
	}
	return values
}

// actionOutputs are the values of -o of verbs that change something.
var actionOutputs = outputs{"text", "json", "yaml", "name", jsonPath + "TEMPLATE"}

// reportOutputs are those of verbs that only show something.
var reportOutputs = outputs{"text", "json", "yaml", jsonPath + "TEMPLATE"}

// aside returns where text for people goes beside data in the format: to standard error,
// without a progress bar.
func (s streams) aside(output string) streams {
	if output == "text" {
		return s
	}
	s.out, s.screen = s.err, screen{to: s.err}
	return s
}

// bar returns what shows progress; nil where there is no terminal to draw on.
func (s streams) bar() *progress.Bar {
	if s.screen.columns == 0 {
		return nil
	}
	return progress.New(s.screen.to, s.screen.columns)
}
