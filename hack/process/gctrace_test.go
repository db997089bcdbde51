package process

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadCollections(t *testing.T) {
	log := `time=2026-11-22T14:10:02.118Z level=INFO msg="certificate issued"
gc 1 @0.012s 2%: 0.018+1.0+0.002 ms clock, 0.036+0.5/0.25/0+0.004 ms cpu, 3->4->2 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P
gc 2 @1.306s 2%: 0.024+3.1+0.012 ms clock, 0.01+1/2/3+0.99 ms cpu, 9->10->5 MB, 11 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)
gc is a word that a log may begin with
`
	c, err := ReadCollections(strings.NewReader(log))
	require.NoError(t, err)
	assert.Equal(t, Collections{N: 2, CPU: 7790 * time.Microsecond, Live: 5 << 20}, c)

	c, err = ReadCollections(strings.NewReader("nothing\n"))
	require.NoError(t, err)
	assert.Zero(t, c)
}
