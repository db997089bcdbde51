package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
)

// withService is a Service that requests a certificate and selects some of the pods.
const withService = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","annotations":{"servingcert.dev/secret-name":"web-tls"}},"spec":{"selector":{"app":"web"},"ports":[{"port":443,"targetPort":8443}]}}` + "\n"

// styles are ways to write a pod.
var styles = map[string]func(t *testing.T, pod []byte) []byte{
	"block": func(t *testing.T, pod []byte) []byte {
		out, err := yaml.JSONToYAML(pod)
		require.NoError(t, err)
		return append([]byte("---\n# the pod\n"), out...)
	},
	"block, Windows": func(t *testing.T, pod []byte) []byte {
		out, err := yaml.JSONToYAML(pod)
		require.NoError(t, err)
		return bytes.ReplaceAll(append([]byte("---\n"), out...), []byte("\n"), []byte("\r\n"))
	},
	"block, indented": func(t *testing.T, pod []byte) []byte {
		out, err := yaml.JSONToYAML(pod)
		require.NoError(t, err)
		node, err := kyaml.Parse(string(out))
		require.NoError(t, err)
		comment(node.YNode())
		out, err = kyaml.MarshalWithOptions(node.YNode(), &kyaml.EncoderOptions{SeqIndent: kyaml.WideSequenceStyle})
		require.NoError(t, err)
		return append([]byte("---\n"), out...)
	},
	"flow": func(t *testing.T, pod []byte) []byte {
		out, err := yaml.JSONToYAML(pod)
		require.NoError(t, err)
		node, err := kyaml.Parse(string(out))
		require.NoError(t, err)
		text, err := kyaml.String(node.YNode(), kyaml.Flow)
		require.NoError(t, err)
		return []byte("---\n" + text)
	},
	"JSON": func(_ *testing.T, pod []byte) []byte { return append(pod, '\n') },
	"JSON, indented": func(t *testing.T, pod []byte) []byte {
		var out bytes.Buffer
		require.NoError(t, json.Indent(&out, pod, "", "\t"))
		return out.Bytes()
	},
}

// comment writes a comment before each element of a list, and after each member.
func comment(n *kyaml.Node) {
	for i, c := range n.Content {
		switch {
		case n.Kind == kyaml.SequenceNode:
			c.HeadComment = "# an element"
		case n.Kind == kyaml.MappingNode && i%2 == 1 && c.Kind == kyaml.ScalarNode && c.Style == 0:
			c.LineComment = "# a member"
		}
		comment(c)
	}
}

// TestPreviewEqualsWebhook: for the goldens and the corpus, in every style, the preview equals
// the result of the webhook's patch, and changes nothing else in the text.
func TestPreviewEqualsWebhook(t *testing.T) {
	service := &corev1.Service{}
	require.NoError(t, json.Unmarshal([]byte(withService), service))
	service.Namespace = "default"
	pods := podsOfTestdata(t)
	require.Greater(t, len(pods), 130)
	for style, write := range styles {
		t.Run(style, func(t *testing.T) {
			changed, kept := 0, 0
			for _, raw := range pods {
				pod := &corev1.Pod{}
				require.NoError(t, json.Unmarshal(raw, pod))
				patch, _, refused := mutate.Mutate(pod, choose.Known{Services: []*corev1.Service{service}})
				want := patchedPod(t, raw, patch)
				text := write(t, bytes.Clone(raw))
				docs, err := Parse("in", append([]byte(withService), text...))
				require.NoError(t, err, "%s", text)
				after, outcomes, err := Run(t.Context(), docs, Options{})
				require.NoError(t, err)
				require.Len(t, outcomes, 1)
				require.NoError(t, outcomes[0].Problem, "%s", text)
				require.Equal(t, refused, outcomes[0].Refused)
				require.Equal(t, want, any(after[1].object))
				if len(patch) == 0 {
					require.Equal(t, string(docs[1].body), string(after[1].body))
					continue
				}
				changed++
				if strings.HasPrefix(style, "block") && onlyAdds(patch) && !replaced.Match(text) {
					kept++
					requireLinesStay(t, string(docs[1].body), string(after[1].body))
				}
			}
			assert.Greater(t, changed, 50)
			if strings.HasPrefix(style, "block") {
				assert.Greater(t, kept, 50)
			}
		})
	}
}

// replaced matches fields that an "add" replaces, such as a status and the schemes of probes.
var replaced = regexp.MustCompile(api.AnnotationStatus + "|scheme|terminationMessagePolicy")

// onlyAdds reports whether no operation of a patch removes or replaces a value.
func onlyAdds(patch jsonpatch.Patch) bool {
	return !slices.ContainsFunc(patch, func(o jsonpatch.Operation) bool { return o.Op == "remove" || o.Op == "replace" })
}

func podsOfTestdata(t *testing.T) [][]byte {
	files, err := filepath.Glob("../mutate/testdata/*.in.yaml")
	require.NoError(t, err)
	var pods [][]byte
	for _, file := range append(files, "../../test/integration/webhook/testdata/corpus.yaml") {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		docs, err := Parse(file, data)
		require.NoError(t, err)
		for _, d := range docs {
			if d.object["kind"] == "Pod" {
				d.object["metadata"].(map[string]any)["namespace"] = "default"
				pods = append(pods, []byte(compactJSON(d.object)))
			}
		}
	}
	return pods
}

func patchedPod(t *testing.T, raw []byte, patch jsonpatch.Patch) any {
	if len(patch) > 0 {
		ops, err := patch.JSON()
		require.NoError(t, err)
		decoded, err := evanphx.DecodePatch(ops)
		require.NoError(t, err)
		raw, err = decoded.Apply(raw)
		require.NoError(t, err)
	}
	value, err := decodeJSON(raw)
	require.NoError(t, err)
	return value
}

// linesOf returns the lines of a text without indentation.
func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// requireLinesStay fails unless every line of before is a line of after, in order.
func requireLinesStay(t *testing.T, before, after string) {
	t.Helper()
	lines := linesOf(after)
	for _, want := range linesOf(before) {
		if strings.HasSuffix(want, "{}") || strings.HasSuffix(want, "[]") || strings.HasSuffix(want, " null") {
			continue // a list that was empty is not on its line any more
		}
		i := 0
		for i < len(lines) && lines[i] != want {
			i++
		}
		if i == len(lines) {
			t.Fatalf("line %q is gone:\n%s", want, after)
		}
		lines = lines[i+1:]
	}
}

// The cost of a preview grows with its input, not with its square.
func BenchmarkPreview(b *testing.B) {
	pod := `{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {servingcert.dev/secret-name: web-tls}}, spec: {containers: [{name: web, image: x, args: [serve]}]}}`
	for _, n := range []int{1_000, 2_000, 4_000, 8_000} {
		for name, text := range map[string]string{
			"documents": strings.Repeat("---\n"+pod+"\n", n),
			"items":     "kind: List\napiVersion: v1\nitems:\n" + strings.Repeat("- "+pod+"\n", n),
			"JSON":      compactJSON(map[string]any{"kind": "List", "items": itemsOf(pod, n)}),
		} {
			b.Run(fmt.Sprintf("%s-%d", name, n), func(b *testing.B) {
				for b.Loop() {
					docs, err := Parse("x", []byte(text))
					if err != nil {
						b.Fatal(err)
					}
					if _, outcomes, err := Run(b.Context(), docs, Options{}); err != nil || len(outcomes) != n || !outcomes[0].Changed {
						b.Fatal(len(outcomes), err)
					}
				}
			})
		}
	}
}

func itemsOf(pod string, n int) []any {
	raw, _ := yaml.YAMLToJSON([]byte(pod))
	value, _ := decodeJSON(raw)
	items := make([]any, n)
	for i := range items {
		items[i] = value
	}
	return items
}
