package app

import (
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

// Colours do not change the text of a table, and text of a cell cannot set colours.
func TestColouredTableHasSameText(t *testing.T) {
	rows := [][]cell{{{"NAME", plain}, {"READY", plain}, {"WHY", plain}}, {{"wéb", plain}, {"True", good}, {"-", plain}}, {{"a\x1b[31mb\n", plain}, {"", bad}, {"last", doubt}}}
	var uncoloured, coloured strings.Builder
	require.NoError(t, new(table).write(screen{to: &uncoloured}, rows...))
	require.NoError(t, new(table).write(screen{to: &coloured, colours: true}, rows...))
	assert.Equal(t, "NAME            READY  WHY\nwéb             True   -\n"+`a\u001b[31mb\n         last`+"\n", uncoloured.String())
	assert.Contains(t, coloured.String(), "\x1b[32mTrue\x1b[0m   -\n")
	assert.NotContains(t, coloured.String(), "a\x1b")
	assert.Equal(t, uncoloured.String(), regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured.String(), ""))
}

// Later rows are aligned with earlier ones.
func TestTableKeepsColumns(t *testing.T) {
	var out strings.Builder
	var columns table
	require.NoError(t, columns.write(screen{to: &out}, cells("long name", "x")))
	require.NoError(t, columns.write(screen{to: &out}, cells("a", "y")))
	assert.Equal(t, "long name  x\na          y\n", out.String())
}

func TestFileIsNotATerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	s := screenOf(file, func(string) string { return "xterm" })
	assert.False(t, s.colours || s.glyphs || s.columns > 0)
	assert.Nil(t, streams{screen: s}.bar())
}

// Printed YAML keeps its values, and has no control characters.
func TestYAMLIsEscapedAndTheSame(t *testing.T) {
	want := map[string]any{
		"name": "web\u202egnp.exe", "text": "one\ntwo \x1b[2J\n", "list": []any{"a\u2066b", "plain", "8080", "true", "it's \"x\""}, "key\u202e": "1",
		"number": float64(80), "yes": true, "tag\U000e0041": "\U000e0041",
	}
	data, err := marshalYAML(want)
	require.NoError(t, err)
	assert.Equal(t, api.EscapeLines(string(data)), string(data))
	var got map[string]any
	require.NoError(t, yaml.Unmarshal(data, &got))
	assert.Equal(t, want, got)
	plain := map[string]any{"a": "x", "b": []any{"z"}}
	data, err = marshalYAML(plain)
	require.NoError(t, err)
	assert.Equal(t, "a: x\nb:\n- z\n", string(data), "unchanged")
}

// Printed JSON keeps its values, and has no control characters.
func TestJSONIsEscapedAndTheSame(t *testing.T) {
	want := map[string]any{"path": "/\U000e0041", "name": "web\u202egnp.exe", "text": "one\ntwo \x1b[2J", "plain": "Zoë 🔒"}
	for _, output := range []string{"json", "jsonpath={$}"} {
		var out strings.Builder
		require.NoError(t, writeData(escaping{&out}, output, want))
		assert.Equal(t, api.EscapeLines(out.String()), out.String(), output)
		var got map[string]any
		require.NoError(t, json.Unmarshal([]byte(out.String()), &got), "%s: %s", output, out.String())
		assert.Equal(t, want, got, output)
	}
}

// Manifests are unchanged in a file, and escaped on a terminal.
func TestManifestsOnATerminal(t *testing.T) {
	in := "# \u202e\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: \"\u202eb\"}\n"
	for columns, want := range map[int]string{0: in, 80: api.EscapeLines(in)} {
		var out strings.Builder
		code := run(t.Context(), []string{"inject", "-f", "-"}, streams{in: strings.NewReader(in), out: &out, err: io.Discard, screen: screen{to: &out, columns: columns}}, Timing{})
		assert.Zero(t, code)
		assert.Equal(t, want, out.String())
	}
}
