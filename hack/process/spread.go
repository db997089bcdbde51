package process

import (
	"cmp"
	"fmt"
	"slices"
)

// Quantile returns the smallest sample that is not less than a share q of the samples; zero if there are none.
func Quantile[T cmp.Ordered](samples []T, q float64) (least T) {
	if len(samples) == 0 {
		return least
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[max(0, min(n, len(sorted)-1))]
}

// Spread contains a figure of several rounds.
type Spread []float64

// Of returns a figure of each round.
func Of[T any](rounds []T, figure func(T) float64) Spread {
	var s Spread
	for _, r := range rounds {
		s = append(s, figure(r))
	}
	return s
}

// Median returns the median.
func (s Spread) Median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Format returns the median, with minimum and maximum if there are several rounds.
func (s Spread) Format(verb string) string {
	if len(s) == 1 {
		return fmt.Sprintf(verb, s[0])
	}
	return fmt.Sprintf(verb+" ("+verb+" – "+verb+")", s.Median(), slices.Min(s), slices.Max(s))
}
