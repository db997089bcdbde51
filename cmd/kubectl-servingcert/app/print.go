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

// cliVersion is the apiVersion of the output of -o json and -o yaml. Adding a field keeps the version;
// changing or removing one makes a new version.
const cliVersion = "cli.servingcert.dev/v1"

// header is the beginning of the output of -o json and -o yaml.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func headerOf(kind string) header { return header{cliVersion, kind} }

// jsonPath is the prefix of a value of -o with a template, as in kubectl get.
const jsonPath = "jsonpath="

// isData reports whether -o selects data: json, yaml or jsonpath=TEMPLATE.
func isData(output string) bool {
	return output == "json" || output == "yaml" || strings.HasPrefix(output, jsonPath)
}

// writeData writes v in the format of -o, for which isData holds.
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

// marshalYAML is yaml.Marshal, with YAML's escape sequences for characters that a terminal interprets or
// that disguise text. They are in quotes, so the value is unchanged.
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

// quote sets quotes around each text with characters to escape.
func quote(n *yamlv3.Node) {
	if n.Kind == yamlv3.ScalarNode && api.EscapeLines(n.Value) != n.Value {
		n.Style = yamlv3.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quote(child)
	}
}

// writeJSONPath writes the result of the template. As with kubectl get, a missing field is empty, and no
// line break is added.
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

// style holds the SGR parameters of coloured text (ECMA-48, 8.3.117); "": no colour.
type style string

const (
	plain style = ""
	bad   style = "31" // red
	good  style = "32" // green
	doubt style = "33" // yellow
)

// screen is the output for people. Colours only repeat the text.
type screen struct {
	to      io.Writer // does not escape: callers must
	colours bool
	glyphs  bool
	columns int // 0: not a terminal that supports drawing
}

// screenOf returns the screen for a file, by the file's type and the environment: NO_COLOR
// (no-color.org), TERM, and the locale.
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
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // the first that is set applies (locale(7))
		if value := strings.ToLower(getenv(name)); value != "" {
			s.glyphs = strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
			break
		}
	}
	return s
}

// paint returns text escaped and, if the screen has colours, coloured.
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

// cells returns cells without colours.
func cells(texts ...string) []cell {
	out := make([]cell, len(texts))
	for i, text := range texts {
		out[i] = cell{text: text}
	}
	return out
}

// table writes rows in columns. Its zero value is ready to use.
type table struct{ widths []int }

// write writes rows. Columns never get narrower than in earlier rows.
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
			if i < len(row)-1 { // two spaces between columns, none at the end
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(api.Escape(c.text))+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(s.to, b.String())
	return err
}

// outputs lists the allowed values of a verb's -o.
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
	return usagef("-o %q%s: must be %s", value, suggestion(value, o), o)
}

// String returns the values as a list in a sentence.
func (o outputs) String() string {
	last := len(o) - 1
	return fmt.Sprintf("%s or %s", strings.Join(o[:last], ", "), o[last])
}

// completions returns the values for shell completion: templates end with "=".
func (o outputs) completions() []string {
	values := slices.Clone(o)
	for i, value := range values {
		values[i] = strings.TrimSuffix(value, "TEMPLATE")
	}
	return values
}

// actionOutputs holds the values of -o for verbs that change objects.
var actionOutputs = outputs{"text", "json", "yaml", "name", jsonPath + "TEMPLATE"}

// reportOutputs holds the values of -o for verbs that only read.
var reportOutputs = outputs{"text", "json", "yaml", jsonPath + "TEMPLATE"}

// aside returns the streams for human-readable text. Beside data, that is standard error without a progress bar.
func (s streams) aside(output string) streams {
	if output == "text" {
		return s
	}
	s.out, s.screen = s.err, screen{to: s.err}
	return s
}

// bar returns the progress bar; nil if there is no terminal to draw on.
func (s streams) bar() *progress.Bar {
	if s.screen.columns == 0 {
		return nil
	}
	return progress.New(s.screen.to, s.screen.columns)
}
