package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpread(t *testing.T) {
	assert.Equal(t, "2.0", Spread{2}.Format("%.1f"))
	assert.Equal(t, "2.0 (1.0 – 9.0)", Spread{9, 1, 2}.Format("%.1f"))
	assert.Equal(t, "2.5 (1.0 – 9.0)", Spread{9, 1, 2, 3}.Format("%.1f"))
	s := Spread{9, 1, 2}
	s.Median()
	assert.Equal(t, Spread{9, 1, 2}, s, "the rounds keep their order")
}

func TestQuantile(t *testing.T) {
	var hundred []int
	for i := 100; i > 0; i-- {
		hundred = append(hundred, i)
	}
	for _, tc := range []struct {
		samples []int
		q       float64
		want    int
	}{
		{nil, 0.5, 0},
		{[]int{7}, 0.5, 7},
		{[]int{7}, 0.99, 7},
		{[]int{3, 1, 2}, 0.5, 2},
		{[]int{3, 1, 2}, 0.99, 3},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
	} {
		assert.Equal(t, tc.want, Quantile(tc.samples, tc.q), "%d samples, %v", len(tc.samples), tc.q)
	}
}
