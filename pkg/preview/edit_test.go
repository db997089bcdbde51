package preview

import (
	"regexp"
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

// Comments are kept in all places and in their order.
func TestCommentsStay(t *testing.T) {
	for _, style := range []struct{ name, dash string }{{"lists in line with their key", ""}, {"indented lists", "  "}} {
		t.Run(style.name, func(t *testing.T) {
			in := strings.ReplaceAll(`# 01

# 02
apiVersion: v1 # 03
# 04
kind: Pod   # 05
yes: 1 # 06
metadata: # 07
  # 08
  labels: &l # 09
    a: b # 10
    # 11

  annotations: {servingcert.dev/secret-name: web-tls, # 12
    # 13
    servingcert.dev/mode: args} # 14
  # 15
spec: # 16
  nodeSelector: *l # 17
  containers: # 18
  -# 19
  -- name: web # 20
  -  image: x
  -  args: [serve, # 21
  -    # 22
  -    b, # 23
  -    ] # 24
  -  command: # 25
  -  # 26
  -  - x # 27

  -  # 28
  -  env: [] # 29
  -  # 30
  -# 31
  --
  -  # 32
  -  name: other
  -  workingDir: | # 33
  -    # text
  # 34
# 35
...
# 36
`, "\n  -", "\n  "+style.dash)
			_, out, _ := strings.Cut(changed(t, in), "")
			at := 0
			for _, want := range append(regexp.MustCompile(`# \d\d`).FindAllString(in, -1), "") {
				i := strings.Index(out[at:], want)
				if assert.GreaterOrEqual(t, i, 0, "%s: %s", want, out) {
					at += i
				}
			}
			assert.Contains(t, out, "yes: 1 # 06\n")
		})
	}
}

// A change of a value with an anchor must not change its aliases.
func TestAliasesDoNotChange(t *testing.T) {
	out := changed(t, "apiVersion: v1\nkind: Pod\nmetadata:\n  labels: &a\n    a: b # c\n  annotations: {"+secretName+"}\nspec:\n  nodeSelector: *a\n  containers:\n  - name: web\n")
	assert.Contains(t, out, "  nodeSelector:\n    a: b # c\n  containers:")
	assert.Contains(t, out, "    a: b # c\n    servingcert.dev/injected: \"true\"\n")
}

func TestMergeKeys(t *testing.T) {
	out := changed(t, "apiVersion: v1\nkind: Pod\nx-container: &c {name: web, image: x, args: [serve]}\nmetadata: {annotations: {"+secretName+"}}\nspec:\n  containers:\n  - <<: *c # why\n    image: z # c\n")
	assert.Contains(t, out, "  # why\n  - image: z # c\n    name: web\n    args:")
	assert.Contains(t, out, "x-container: {name: web, image: x, args: [serve]}\n")
}

// A change that would take kyaml long, or lose a comment, is a problem of the workload.
func TestAChangeThatIsRefused(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nx-container: &c {name: web}\nmetadata: {annotations: {" + secretName + "}}\nspec:\n  containers:\n  - <<: *c\n"
	for text, want := range map[string]string{
		pod + "x: [" + strings.Repeat("1,", maxMerged) + "]\n": errMerge.Error(),
		pod + "x: [ # why\n  1]\n":                             errComment.Error(),
	} {
		docs, err := Parse("in", []byte(text))
		require.NoError(t, err)
		after, outcomes, err := Run(t.Context(), docs, Options{})
		require.NoError(t, err)
		require.EqualError(t, outcomes[0].Problem, want)
		require.False(t, outcomes[0].Changed)
		require.Equal(t, text, string(after[0].Bytes()))
	}
}

// An apparent comment at the end of a block may be text.
func TestALiteralAtTheEnd(t *testing.T) {
	for _, literal := range []string{
		"    args:\n    - |\n      text\n      # text\n",
		"    workingDir: |-\n      text\n      # text\n\n",
		"    workingDir: >\n      text\n\n      # text\n    # a comment\n",
	} {
		in := "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {" + secretName + ", servingcert.dev/mode: mount}\nspec:\n  containers:\n  - name: web\n" + literal
		out := changed(t, in)
		for line := range strings.Lines(literal) {
			assert.Contains(t, out, line)
		}
	}
}

func TestFilesAreJoinedAsKubectlReadsThem(t *testing.T) {
	const (
		yes  = `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"servingcert.dev/secret-name":"web-tls"}},"spec":{"containers":[{"name":"web"}]}}`
		pod  = "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {" + secretName + "}}\nspec: {containers: [{name: web}]}"
		mark = "\ufeff"
	)
	for want, files := range map[int][]string{
		2: {yes, yes}, 3: {pod, yes + yes}, 4: {yes + "\n" + yes, pod + "\n---\n" + pod},
		5: {yes, mark + pod, "--- # c\n" + pod, "# c\n---\n" + pod, pod + "\n...\n"},
	} {
		read, ok := kubectl([]byte(changed(t, files...)))
		assert.True(t, ok, "%q", files)
		assert.Len(t, read, want, "%q", files)
	}
}

// A change that cannot be written is reported, and the document is kept.
func TestAChangeThatCannotBeWritten(t *testing.T) {
	docs, err := Parse("in", []byte("apiVersion: v1\nkind: Pod\nmetadata: {annotations: {"+secretName+"}}\nspec: {containers: [{name: web}]}\n"))
	require.NoError(t, err)
	docs[0].body = []byte("kind: [another, text]\n")
	after, outcomes, err := Run(t.Context(), docs, Options{})
	require.NoError(t, err)
	require.Equal(t, string(docs[0].body), string(after[0].body))
	require.False(t, outcomes[0].Changed)
	require.ErrorContains(t, outcomes[0].Problem, "cannot be written into this document")
}
