package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpread(t *testing.T) {
	assert.Equal(t, "2.0", spread{2}.format("%.1f"))
	assert.Equal(t, "2.0 (1.0 – 9.0)", spread{9, 1, 2}.format("%.1f"))
	assert.Equal(t, "2.5 (1.0 – 9.0)", spread{9, 1, 2, 3}.format("%.1f"))
	s := spread{9, 1, 2}
	s.median()
	assert.Equal(t, spread{9, 1, 2}, s, "the rounds keep their order")
}
