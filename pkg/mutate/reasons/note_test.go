package reasons

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/test/bounded"
)

// TestALongDetailCostsLittle: a detail may be a text of a pod, and a note is written several times.
func TestALongDetailCostsLittle(t *testing.T) {
	n := Note{Reason: MountPathCovers, Detail: strings.Repeat("a ", 3<<20)}
	var line string
	assert.Less(t, bounded.Allocated(func() { line = n.String() }), uint64(64<<10))
	assert.Contains(t, line, " ("+strings.Repeat("a ", maxDetail/2)+"…): ")

	n.Detail = strings.Repeat(" \n\t", 20) + "web-tls  at\n/etc"
	assert.Contains(t, n.String(), " (web-tls at /etc): ")
}
