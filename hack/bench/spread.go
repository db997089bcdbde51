package main

import (
	"fmt"
	"slices"
)

// spread is what several rounds of the same measured.
type spread []float64

// of collects a figure of each round.
func of[T any](rounds []T, figure func(T) float64) spread {
	var s spread
	for _, r := range rounds {
		s = append(s, figure(r))
	}
	return s
}

func (s spread) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// format is the median, and the least and the most if there is more than one.
func (s spread) format(verb string) string {
	if len(s) == 1 {
		return fmt.Sprintf(verb, s[0])
	}
	return fmt.Sprintf(verb+" ("+verb+" – "+verb+")", s.median(), slices.Min(s), slices.Max(s))
}
