package probe

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestShares(t *testing.T) {
	for keys, want := range map[int][2]int{0: {16, 64}, 1: {16, 64}, 2: {16, 64}, 3: {16, 48}, 9: {16, 16}, 10: {14, 14}, api.MaxMounts + 1: {2, 2}} {
		ports, answers := Shares(keys)
		assert.Equal(t, want, [2]int{ports, answers}, "%d keys", keys)
	}
	for keys := 1; keys <= api.MaxMounts+1; keys++ {
		ports, answers := Shares(keys)
		assert.LessOrEqual(t, keys*answers, MaxAnswers)
		assert.LessOrEqual(t, ports, answers, "what is dialled is kept")
		assert.Positive(t, ports)
	}
}
