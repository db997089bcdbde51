//go:build unix

package serving

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

var update = flag.Bool("update", false, "write the examples into "+page)

// page shows the examples, each as a code block after a comment that names the file.
const page = "docs/serving-from-a-program.md"

var shown = regexp.MustCompile("(?s)(<!-- test/docs/serving/(\\S+) -->\n```\\w+\n)(.*?)(```\n)")

// The page contains each file below this directory, verbatim.
func TestThePageShowsTheExamples(t *testing.T) {
	file := path.Join(root, page)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	if *update {
		written := shown.ReplaceAllStringFunc(string(text), func(block string) string {
			m := shown.FindStringSubmatch(block)
			return m[1] + read(t, m[2]) + m[4]
		})
		require.NoError(t, os.WriteFile(file, []byte(written), 0o644))
		text = []byte(written)
	}
	onPage := map[string]string{}
	for _, m := range shown.FindAllStringSubmatch(string(text), -1) {
		onPage[m[2]] = m[3]
	}
	here := 0
	err = fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		here++
		assert.Equal(t, read(t, name), onPage[name], "%s differs on the page; run go test ./test/docs/serving -run TestThePage -update", name)
		return nil
	})
	require.NoError(t, err)
	assert.Len(t, onPage, here, "the page names a file that does not exist")
}

func read(t *testing.T, name string) string {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}
