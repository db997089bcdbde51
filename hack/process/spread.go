package process

import (
	"cmp"
	"fmt"
	"slices"
)

// Quantile returns the smallest of the samples that a share q of them does not exceed; zero of none.
func Quantile[T cmp.Ordered](samples []T, q float64) (least T) {
	if len(samples) == 0 {
		return least
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[max(0, min(n, len(sorted)-1))]
}

// Spread is what several rounds of the same measured.
type Spread []float64

// Of collects a figure of each round.
func Of[T any](rounds []T, figure func(T) float64) Spread {
	var s Spread
	for _, r := range rounds {
		s = append(s, figure(r))
	}
	return s
}

// Median is the middle one, or the mean of the two in the middle.
func (s Spread) Median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Format is the median, and the least and the most if there is more than one.
func (s Spread) Format(verb string) string {
	if len(s) == 1 {
		return fmt.Sprintf(verb, s[0])
	}
	return fmt.Sprintf(verb+" ("+verb+" – "+verb+")", s.Median(), slices.Min(s), slices.Max(s))
}
