package world

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
)

func TestSummary(t *testing.T) {
	seen := []invariant.Sighting{{Leaf: "a", Key: "k", Issuer: "one"}, {Leaf: "b", Key: "l", Issuer: "two"}, {Epoch: 1, Leaf: "a", Key: "k", Issuer: "one"}}
	assert.Equal(t, `2 certificates with 2 keys, signed by ["one" "two"]`, Summary(seen))
}
