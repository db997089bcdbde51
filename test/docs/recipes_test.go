package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/preview"
)

// TestRecipes decodes each manifest of docs/recipes.md strictly, and compares what the webhook makes of it with the comment
// above it: WORKLOAD CONTAINER and its parts, and the reasons of notes.
func TestRecipes(t *testing.T) {
	blocks := regexp.MustCompile("(?s)<!-- injected: ([^>]*) -->\n```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "docs/recipes.md"), -1)
	require.Len(t, blocks, 6)
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, block := range blocks {
		for doc := range strings.SplitSeq(block[2], "---\n") {
			_, _, err := strict.Decode([]byte(doc), nil, nil)
			assert.NoError(t, err, block[1])
		}
		docs, err := preview.Parse("docs/recipes.md", []byte(block[2]))
		require.NoError(t, err)
		_, outcomes, err := preview.Run(t.Context(), docs, preview.Options{Config: choose.Config{ProxyImage: "registry.example/proxy"}})
		require.NoError(t, err)
		var got []string
		for _, row := range preview.Rows(outcomes) {
			if row.Done == "note" {
				got = append(got, strings.SplitN(row.Why, ":", 2)[0])
				continue
			}
			got = append(got, row.Workload+" "+row.Container+" "+row.Done)
		}
		assert.Equal(t, block[1], strings.Join(got, " "))
	}
}
