package preview

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const secretName = "servingcert.dev/secret-name: web-tls"

func changed(t *testing.T, texts ...string) string {
	t.Helper()
	var docs []Document
	for _, text := range texts {
		parsed, err := Parse("in", []byte(text))
		require.NoError(t, err)
		docs = append(docs, parsed...)
	}
	docs, outcomes, err := Run(t.Context(), docs, Options{})
	require.NoError(t, err)
	require.NotEmpty(t, outcomes)
	for _, o := range outcomes {
		require.NoError(t, o.Problem)
		require.True(t, o.Changed)
	}
	return string(Join(docs))
}

func TestLineEndingsStay(t *testing.T) {
	for name, pod := range map[string]string{
		"in place":     "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {" + secretName + "}} # c\nspec:\n  containers:\n  - name: web\n    image: x\n",
		"in JSON":      "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n  \"metadata\": {\"annotations\": {\"servingcert.dev/secret-name\": \"web-tls\"}},\n  \"spec\": {\n    \"containers\": [\n      {\"name\": \"web\"}\n    ]\n  }\n}\n",
		"with aliases": "apiVersion: v1\nkind: Pod\nmetadata:\n  labels: &a {a: b} # c\n  annotations: {" + secretName + "}\nspec:\n  nodeSelector: *a\n  containers:\n  - name: web\n",
	} {
		out := changed(t, strings.ReplaceAll(pod, "\n", "\r\n"))
		assert.Equal(t, strings.Count(out, "\n"), strings.Count(out, "\r\n"), "%s: %q", name, out)
		assert.Equal(t, changed(t, pod), strings.ReplaceAll(out, "\r\n", "\n"), name)
	}
}

// A change of a value with an anchor must not change its aliases.
func TestAliasesDoNotChange(t *testing.T) {
	out := changed(t, "apiVersion: v1\nkind: Pod\nmetadata:\n  labels: &a\n    a: b # c\n  annotations: {"+secretName+"}\nspec:\n  nodeSelector: *a\n  containers:\n  - name: web\n")
	assert.Contains(t, out, "  nodeSelector:\n    a: b # c\n  containers:")
	assert.Contains(t, out, "    a: b # c\n    servingcert.dev/injected: \"true\"\n")
}

func TestMergeKeys(t *testing.T) {
	out := changed(t, "apiVersion: v1\nkind: Pod\nx-container: &c {name: web, image: x, args: [serve]}\nmetadata: {annotations: {"+secretName+"}}\nspec:\n  containers:\n  - <<: *c\n    image: z # c\n")
	assert.Contains(t, out, "    - image: z # c\n      name: web\n      args:")
	assert.Contains(t, out, "x-container: {name: web, image: x, args: [serve]}\n")
}

// What looks like a comment at the end of a block may be text.
func TestALiteralAtTheEnd(t *testing.T) {
	for _, literal := range []string{
		"    args:\n    - |\n      text\n      # text\n",
		"    workingDir: |-\n      text\n      # text\n\n",
		"    workingDir: >\n      text\n\n      # text\n    # a comment\n",
	} {
		in := "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {" + secretName + ", servingcert.dev/mode: mount}\nspec:\n  containers:\n  - name: web\n" + literal
		text, _, _ := strings.Cut(literal, "    # a comment")
		out := changed(t, in)
		assert.Contains(t, out, strings.TrimRight(text, "\n")+"\n    volumeMounts:\n")
	}
}

func TestFilesAreJoinedAsKubectlReadsThem(t *testing.T) {
	const (
		yes  = `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"servingcert.dev/secret-name":"web-tls"}},"spec":{"containers":[{"name":"web"}]}}`
		pod  = "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {" + secretName + "}}\nspec: {containers: [{name: web}]}"
		mark = byteOrderMark
	)
	for want, files := range map[int][]string{
		2: {yes, yes}, 3: {pod, yes + yes}, 4: {yes + "\n" + yes, pod + "\n---\n" + pod},
		5: {yes, mark + pod, "--- # c\n" + pod, "# c\n---\n" + pod, pod + "\n...\n"},
	} {
		read, ok := kubectl([]byte(changed(t, files...)))
		assert.True(t, ok, "%q", files)
		assert.Len(t, read, want, "%q", files)
	}
	out := changed(t, pod, "# c\n%YAML 1.2\n---\n"+pod)
	docs, err := Parse("out", []byte(out)) // kubectl reads no directives
	require.NoError(t, err, "%s", out)
	require.Len(t, docs, 2)
}

// A change that cannot be written is reported, and the text stays.
func TestAChangeThatCannotBeWritten(t *testing.T) {
	docs, err := Parse("in", []byte("apiVersion: v1\nkind: Pod\nmetadata: {annotations: {"+secretName+"}}\nspec: {containers: [{name: web}]}\n"))
	require.NoError(t, err)
	docs[0].text = []byte("kind: [another, text]\n")
	after, outcomes, err := Run(t.Context(), docs, Options{})
	require.NoError(t, err)
	require.Equal(t, string(docs[0].text), string(after[0].text))
	require.False(t, outcomes[0].Changed)
	require.ErrorContains(t, outcomes[0].Problem, "cannot be written into this text")
}

// TestAMemberGetsAnotherName: in its place, in every style, and nothing else changes.
func TestAMemberGetsAnotherName(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"the only one of a block", "a:\n  old: x # why\nb: 1\n", "a:\n  new: \"true\" # why\nb: 1\n"},
		{"a block", "a:\n  b: 1\n  old: x\n  z: 2\n", "a:\n  b: 1\n  new: \"true\"\n  z: 2\n"},
		{"flow", "a: {b: 1, old: 'x', z: 2}\n", "a: {b: 1, new: \"true\", z: 2}\n"},
		{"JSON", `{"a": {"old": "x"}}`, `{"a": {"new": "true"}}`},
		{"quotes", "a:\n  \"old\": |\n    x\n", "a:\n  new: \"true\"\n"},
		{"windows", "a:\r\n  old: x\r\n", "a:\r\n  new: \"true\"\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs, err := Parse("in.yaml", []byte(c.in))
			require.NoError(t, err)
			changed, err := docs[0].Change(func(object map[string]any) {
				a := object["a"].(map[string]any)
				delete(a, "old")
				a["new"] = "true"
			})
			require.NoError(t, err)
			require.Equal(t, c.out, string(changed.Bytes()))
			require.Equal(t, c.in, string(docs[0].Bytes()), "the document before is as it was")
		})
	}
	docs, err := Parse("in.yaml", []byte("volumes:\n- name: a\n  secret:\n    # why\n    secretName: x\n  z: 1 # kept\n# end\n"))
	require.NoError(t, err)
	changed, err := docs[0].Change(func(object map[string]any) {
		v := object["volumes"].([]any)[0].(map[string]any)
		delete(v, "secret")
		v["configMap"] = map[string]any{"name": "x", "items": []any{map[string]any{"key": "k"}}}
	})
	require.NoError(t, err)
	require.Equal(t, "volumes:\n- name: a\n  configMap:\n    items:\n    - key: k\n    name: x\n  z: 1 # kept\n# end\n", string(changed.Bytes()))
}
