package trust

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestADigestIsNoLongerThanItsValue(t *testing.T) {
	whole := strings.Repeat("x", len(digestPrefix)+sha256.Size)
	assert.Equal(t, whole, digest(whole))
	assert.Equal(t, digestOf(sha256.Sum256([]byte(whole+"x"))), digest(whole+"x"))
	assert.Equal(t, digest(whole+"x"), digest(digest(whole+"x")))
}
