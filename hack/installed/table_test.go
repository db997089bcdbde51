package installed

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	Table(&out, [][]string{{"a", "p50 ×"}, {"long", ""}})
	assert.Equal(t, "| a    | p50 × |\n|------|-------|\n| long |       |\n\n", out.String())
}
