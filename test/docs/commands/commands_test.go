package commands

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = `# A page
<!-- not run: it is an example -->
` + "```sh\none\ntwo\n```" + `
## Section

<!-- run after: export A=1
    B=2 -->
<!-- another -->
` + "```console\n$ cat <<END |\n$A\nEND\n>   wc\n3\n$ a \\\n    b '\n' # end\n$ c\nout\n\nmore\n```" + `

` + "```yaml\n$ no: shell\n```" + `
1. Indented:
   <!-- run by TestX -->
` + "   ```console\n   # root\n   out\n   ```\n"

func TestBlocks(t *testing.T) {
	blocks, err := Blocks(page)
	require.NoError(t, err)
	assert.Equal(t, []Block{
		{Line: 3, Why: "it is an example", Commands: []Command{{4, "one\ntwo\n", ""}}},
		{Line: 12, Run: true, After: "export A=1\n    B=2", Commands: []Command{
			{13, "cat <<END |\n$A\nEND", ">   wc\n3\n"}, {18, "a \\\n    b '\n' # end", ""}, {21, "c", "out\n\nmore\n"},
		}},
		{Line: 32, By: "TestX", Commands: []Command{{33, "root", "out\n"}}},
	}, blocks)
}

func TestBlocksWithoutAMark(t *testing.T) {
	_, err := Blocks("```sh\nx\n```\n<!-- run -->\ntext\n```console\n```\n<!-- running -->\n```sh\n```\n")
	assert.ErrorContains(t, err, "lines 1, 6, 9 have no mark")
	_, err = Blocks("\n```sh\n")
	assert.ErrorContains(t, err, "line 2: the block has no end")
}

func TestShows(t *testing.T) {
	for name, test := range map[string]struct {
		page, printed string
		shows         bool
	}{
		"the same":        {"a\nb\n", "a\nb\n", true},
		"varying":         {"leaf 107156e9cbb8 (6s) until 2026-12-22T00:57:00Z, 1 of 3\n", "leaf  aaaaaaaaaaaa (1m10s) until 2027-01-01T00:00:00Z, 10 of 12\n", true},
		"another word":    {"a 1\n", "b 1\n", false},
		"a line more":     {"a\n", "a\nb\n", false},
		"a line less":     {"a\nb\n", "a\n", false},
		"rest of a line":  {"a …\nb\n", "a x y\nb\n", true},
		"indented":        {"a\n    b  c\n", "a\n  b c\n", true},
		"older kubectl":   {"secret \"a\" deleted from shop namespace\n", "secret \"a\" deleted\n", true},
		"any lines":       {"a\n…\nb\n", "a\n1\n2\nb\n", true},
		"not these lines": {"a\n…\nb\n", "a\n1\n2\nc\n", false},
		"no pattern":      {"a.c (x)\n", "abc (x)\n", false},
	} {
		assert.Equal(t, test.shows, Shows(test.page, test.printed), name)
	}
}

func TestTyped(t *testing.T) {
	b := Block{After: "POD=a\nexport X=1\nCLUSTER=eu"}
	assert.Equal(t, `get pod "$POD" POD_IP $CLUSTER --context="$CLUSTER" X`, b.Typed(Command{Text: `get pod POD POD_IP $CLUSTER --context="$CLUSTER" X`}))
}
