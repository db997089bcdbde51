package preview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	const stream = `# a comment
apiVersion: v1
kind: Service
metadata:
  name: web
  annotations:
    servingcert.dev/duration: 5y
---
# the second
apiVersion: v1
kind: List
items:
- kind: Pod
  apiVersion: v1
  metadata: {name: a, annotations: {x: y}}
- &b
  kind: Pod
  apiVersion: v1
  metadata:
    name: b
`
	docs, err := Parse("shop.yaml", []byte(stream))
	require.NoError(t, err)
	require.Len(t, docs, 2)
	line := func(doc int, at ...any) int { return docs[doc].Lines().Of(at...) }
	assert.Equal(t, "shop.yaml", docs[1].File())
	assert.Equal(t, 2, line(0))
	assert.Equal(t, 7, line(0, "metadata", "annotations", "servingcert.dev/duration"))
	assert.Equal(t, 6, line(0, "metadata", "annotations", "absent"), "the nearest existing one")
	assert.Equal(t, 10, line(1))
	assert.Equal(t, 13, line(1, "items", 0))
	assert.Equal(t, 15, line(1, "items", 0, "metadata", "annotations", "x"))
	assert.Equal(t, 20, line(1, "items", 1, "metadata", "name"))

	objects := docs[1].Objects("shop")
	require.Len(t, objects, 2)
	assert.Equal(t, "Pod shop/b", objects[1].Kind+" "+objects[1].Namespace+"/"+objects[1].Name)
	assert.Equal(t, []any{"items", 1}, objects[1].At)
}

// Lines are counted from the start of the file in JSON, and after byte order marks and comments.
func TestLinesOfOtherStreams(t *testing.T) {
	for name, c := range map[string]struct {
		stream    string
		doc, want int
	}{
		"JSON":               {"{\"kind\": \"Pod\",\n\t\"metadata\": {\n\t\t\"name\": \"a\"}}\n", 0, 3},
		"JSON after JSON":    {"{\"kind\": \"Pod\"}\n{\"metadata\":\n{\"name\": \"a\"}}", 1, 3},
		"YAML after JSON":    {"{\"kind\": \"Pod\"}\n---\nmetadata:\n  name: a\n", 1, 4},
		"byte order mark":    {"\ufeffmetadata:\n  name: a\n", 0, 2},
		"mark of the second": {"a: b\n---\n\ufeffmetadata:\n  name: a\n", 1, 4},
		"comment":            {"# a\n--- # b\n# c\nmetadata:\n  name: a\n", 1, 5},
		"carriage returns":   {"kind: Pod\r\nmetadata:\r\n  name: a\r\n", 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := Parse("x", []byte(c.stream))
			require.NoError(t, err)
			assert.Equal(t, c.want, docs[c.doc].Lines().Of("metadata", "name"))
		})
	}
}
