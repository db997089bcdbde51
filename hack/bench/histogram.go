package main

import (
	"fmt"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// histogram is the sum of all series of one.
type histogram struct {
	count, sum float64
	bounds     []float64 // of the buckets, the smallest first
	below      []float64 // how many are at most that
}

func histogramOf(family *dto.MetricFamily) histogram {
	var h histogram
	for _, series := range family.GetMetric() {
		of := series.GetHistogram()
		h.count += float64(of.GetSampleCount())
		h.sum += of.GetSampleSum()
		for i, bucket := range of.GetBucket() {
			if i == len(h.bounds) {
				h.bounds, h.below = append(h.bounds, bucket.GetUpperBound()), append(h.below, 0)
			}
			h.below[i] += float64(bucket.GetCumulativeCount())
		}
	}
	return h
}

// since returns what came after an earlier reading.
func (h histogram) since(earlier histogram) histogram {
	out := histogram{h.count - earlier.count, h.sum - earlier.sum, h.bounds, slices.Clone(h.below)}
	for i := range earlier.below {
		out.below[i] -= earlier.below[i]
	}
	return out
}

// within returns the bound of the bucket that holds the given part of all, in seconds. More
// is not known of a histogram.
func (h histogram) within(part float64) float64 {
	for i, n := range h.below {
		if n >= part*h.count {
			return h.bounds[i]
		}
	}
	return math.Inf(1)
}

// String says how many there were, their mean, and within which bounds half, 99 % and all were.
func (h histogram) String() string {
	if h.count == 0 {
		return "none"
	}
	return fmt.Sprintf("%.0f, mean %.2f ms; half ≤ %g, 99 %% ≤ %g, all ≤ %g ms", h.count, 1000*h.sum/h.count, 1000*h.within(0.5), 1000*h.within(0.99), 1000*h.within(1))
}
