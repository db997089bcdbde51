package preview_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/preview"
)

// pod is a pod that gets a certificate, in JSON, which is YAML too.
func pod(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"annotations":{"servingcert.dev/secret-name":"web-tls"}},"spec":{"containers":[{"name":"web","image":"x","args":["serve"]}]}}`, name)
}

// block is the same pod in YAML's block style.
func block(name string) string {
	out, _ := yaml.JSONToYAML([]byte(pod(name)))
	return string(out)
}

// streams are inputs of kubectl apply -f, and the number of pods a, b, c … in them.
var streams = map[string]struct {
	in   string
	pods int
}{
	"documents":                   {block("a") + "---\n" + block("b"), 2},
	"separator at the start":      {"---\n" + block("a"), 1},
	"separators alone":            {"---\n---\n---\n" + block("a") + "---\n---\n", 1},
	"comments alone":              {"# a\n---\n# b\n---\n" + block("a") + "---\n# c\n", 1},
	"nothing":                     {"", 0},
	"a separator with a comment":  {"--- # one\n" + block("a") + "---\t# two\n" + block("b"), 2},
	"an end marker":               {block("a") + "...\n---\n" + block("b") + "...\n", 2},
	"Windows":                     {strings.ReplaceAll("# c\n"+block("a")+"---\n"+block("b")+"--- # d\n"+block("c"), "\n", "\r\n"), 3},
	"a byte order mark":           {"\ufeff" + block("a"), 1},
	"a byte order mark and ---":   {"\ufeff---\n" + block("a") + "---\n" + block("b"), 2},
	"a byte order mark inside":    {block("a") + "---\n\ufeff" + block("b"), 2},
	"a byte order mark and JSON":  {"\ufeff" + pod("a"), 1},
	"concatenated JSON":           {pod("a") + pod("b") + "\n" + pod("c"), 3},
	"indented JSON":               {indented(pod("a")) + "\n\n" + indented(pod("b")) + "\n", 2},
	"JSON with tabs":              {"\n\t" + strings.ReplaceAll(indented(pod("a")), "  ", "\t") + "\n", 1},
	"JSON with escapes":           {strings.Replace(pod("a"), `"image":"x"`, `"image":"x","env":[{"name":"A","value":"\ud83d\ude00 \/ \u007f"}]`, 1), 1},
	"JSON and then YAML":          {pod("a") + "\n---\n" + block("b") + "---\n" + block("c"), 3},
	"JSON with separators":        {pod("a") + "\n---\n" + pod("b") + "\n---\n" + pod("c"), 3},
	"JSON and a comment":          {pod("a") + "\n# c\n---\n" + block("b"), 2},
	"JSON and YAML, no separator": {pod("a") + "\n" + block("b"), 2},
	"YAML in braces":              {"{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {servingcert.dev/secret-name: web-tls}}, # c\n spec: {containers: [{name: web, image: x, args: [serve]}]}}\n---\n" + block("b"), 2},
	"a List":                      {"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[" + pod("a") + "," + pod("b") + "]}", 2},
	"a List in a List":            {"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[" + pod("a") + "]}," + pod("b") + "]}", 2},
	"a list of a kind":            {"{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[" + pod("a") + "," + strings.Replace(pod("b"), `"apiVersion":"v1","kind":"Pod",`, "", 1) + "]}", 2},
	"a list by its items":         {"{\"apiVersion\":\"x/v1\",\"kind\":\"Bundle\",\"items\":[" + pod("a") + "]}", 1},
	"no newline at the end":       {strings.TrimRight(block("a")+"---\n"+block("b"), "\n"), 2},
	"a literal at the end":        {block("a") + "---\n" + strings.TrimRight(block("b"), "\n") + "\nx: |\n  text", 2},
	"keys given twice":            {strings.Replace(block("a"), "kind: Pod\n", "kind: Pod\nspec: {}\n", 1), 1},
}

func indented(s string) string {
	s = strings.NewReplacer("{", "{\n  ", "},", "\n  },\n  ", "}}", "\n  }}").Replace(s)
	return s
}

// Every document of a stream is read, and unchanged documents keep their bytes.
func TestEveryDocumentIsRead(t *testing.T) {
	for name, s := range streams {
		t.Run(name, func(t *testing.T) {
			docs, err := preview.Parse("in.yaml", []byte(s.in))
			require.NoError(t, err)
			require.Equal(t, withLastLineBreak(s.in), string(preview.Join(docs)))
			docs, outcomes, err := preview.Run(t.Context(), docs, preview.Options{})
			require.NoError(t, err)
			var pods []string
			for _, o := range outcomes {
				assert.True(t, o.Changed, o.Name)
				pods = append(pods, o.Name)
			}
			want := []string{"a", "b", "c"}[:s.pods]
			require.Equal(t, strings.Join(want, " "), strings.Join(pods, " "))

			// The output is a stream in which the same pods are found, injected.
			out := preview.Join(docs)
			docs, err = preview.Parse("out.yaml", out)
			require.NoError(t, err, "%s", out)
			again, outcomes, err := preview.Run(t.Context(), docs, preview.Options{})
			require.NoError(t, err)
			require.Len(t, outcomes, s.pods, "%s", out)
			for _, o := range outcomes {
				assert.True(t, o.Report.Injected(), o.Name)
				assert.False(t, o.Changed, "%s: %s", o.Name, out)
			}
			assert.Equal(t, string(out), string(preview.Join(again)))
		})
	}
}

// withLastLineBreak returns the output for a text without changes.
func withLastLineBreak(text string) string {
	if text = strings.TrimPrefix(text, "\ufeff"); text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// A stream that cannot be read completely is refused, with the place and the error.
func TestWhatCannotBeReadIsRefused(t *testing.T) {
	for in, want := range map[string]string{
		"kind: A\n---\n{{ helm }}\n":                 "x.yaml, document 2: ",
		"- a\n":                                      "x.yaml, document 1: not an object",
		"kind: A\n---\n3\n":                          "x.yaml, document 2: not an object",
		"[1]":                                        "x.yaml, document 1: not an object",
		"kind: A\n...\nkind: B\n":                    `x.yaml, document 1: yaml: line 2: did not find expected <document start>: each document must begin with a line "---"`,
		"kind: A\n---foo\nkind: B\n":                 `x.yaml, line 2: "---foo": begins with "---": only a space and a comment may follow`,
		"--- !!map\nkind: B\n":                       `x.yaml, line 1: "--- !!map": begins with "---"`,
		"kind: A\r---\rkind: B\r":                    "x.yaml, document 1: line 2: contains more than one YAML document",
		"%YAML 1.1\n---\nkind: A\n":                  "x.yaml, document 1: begins with a directive",
		"kind: A\n...\n%YAML 1.2\n---\nkind: A\n":    "x.yaml, document 1: ",
		"kind: \"\xff\"\n":                           "x.yaml: not UTF-8",
		"%YAML 1.2\nkind: A\n":                       "x.yaml, document 1: ",
		"---\n" + pod("a") + "\n" + pod("b"):         "x.yaml, document 1: ",
		pod("a") + pod("b") + "}":                    "x.yaml, document 3: ",
		"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + aliases(8): "x.yaml, document 1: aliases expand it to more than",
		"a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 64) + "]\n": "x.yaml, document 1: aliases expand it to more than 64 MiB",
		"kind: A\nmetadata: {labels: &l {a: *l}}\n":                                          "x.yaml, document 1: ",
		strings.Repeat("{\"a\":", 2000) + "1" + strings.Repeat("}", 2000):                    "x.yaml, document 1: nested more than 1000 levels deep",
		"kind: A\nx: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000):               "x.yaml, document 1: nested more than 1000 levels deep",
		strings.Repeat("---\na: b\n", 10_001):                                                "x.yaml: more than 10000 documents",
		strings.Repeat("#", 8<<20) + "\n":                                                    "x.yaml: larger than 8 MiB",
	} {
		short := in[:min(len(in), 40)]
		_, err := preview.Parse("x.yaml", []byte(in))
		if assert.Error(t, err, "%q", short) {
			assert.Contains(t, err.Error(), want, "%q", short)
			assert.NotContains(t, err.Error(), "\n", "%q", short)
		}
	}
}

// aliases returns members of a mapping, each with ten aliases of the one before it.
func aliases(n int) string {
	var b strings.Builder
	for i := range n {
		before, name := string(rune('a'+i)), string(rune('a'+i+1))
		fmt.Fprintf(&b, "%s: &%s [%s]\n", name, name, strings.TrimRight(strings.Repeat("*"+before+",", 10), ","))
	}
	return b.String()
}

var update = flag.Bool("update", false, "write the streams, from which the fuzzer starts, as files")

// The streams are files too: the fuzzer starts from them.
func TestStreamsAreFiles(t *testing.T) {
	for name, s := range streams {
		file := filepath.Join("testdata", "streams", strings.NewReplacer(" ", "-", ",", "", "---", "separator").Replace(strings.ToLower(name)))
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(s.in), 0o600))
		}
		got, err := os.ReadFile(file)
		require.NoError(t, err, "run go test ./pkg/preview -update")
		assert.Equal(t, s.in, string(got), "run go test ./pkg/preview -update")
	}
}
