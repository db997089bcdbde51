package jsonpatch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMember(t *testing.T) {
	assert.Equal(t, "/metadata/annotations/a~1b~0c~01", Member(Annotations, "a/b~c~1")) // RFC 6901, 3
}
