package mutate

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPointer(t *testing.T) {
	assert.Equal(t, "/metadata/annotations/a~1b~0c/0/-", pointer("metadata", "annotations", "a/b~c", 0, "-")) // RFC 6901, 3
}
