package main

import (
	"fmt"
	"io"

	"github.com/servingcert/servingcert/hack/measure"
)

// figures are those of one way in one round: times in microseconds, memory in MB.
type figures struct {
	newRate, newCPU          float64
	rate, cpu, p50, p99      float64
	paced99                  float64 // at pacedRate
	download, downloadCPU    float64 // MB/s, CPU s/GB
	rest, thousand, idleConn float64
}

var rows = []struct {
	name, format, budget string
	of                   func(figures) float64
}{
	{"new connections/s, each with a request", "%.0f", "≥ 0.9 of nginx", func(f figures) float64 { return f.newRate }},
	{"CPU µs a new connection", "%.0f", "", func(f figures) float64 { return f.newCPU }},
	{"requests/s, 50 connections", "%.0f", "≥ 0.75 of nginx", func(f figures) float64 { return f.rate }},
	{"CPU µs a request", "%.1f", "≤ 1.3 × nginx", func(f figures) float64 { return f.cpu }},
	{"p50 µs", "%.0f", "", func(f figures) float64 { return f.p50 }},
	{"p99 µs", "%.0f", "", func(f figures) float64 { return f.p99 }},
	{"p99 µs at 2000 requests/s", "%.0f", "< 1000 more than direct", func(f figures) float64 { return f.paced99 }},
	{"download of 1 GiB, MB/s", "%.0f", "≥ 0.9 of nginx", func(f figures) float64 { return f.download }},
	{"CPU s a GB", "%.2f", "", func(f figures) float64 { return f.downloadCPU }},
	{"RSS at rest, MB", "%.1f", "≤ 8", func(f figures) float64 { return f.rest }},
	{"RSS with 1000 idle connections, MB", "%.0f", "", func(f figures) float64 { return f.thousand }},
	{"RSS with all idle connections, MB", "%.0f", "≤ 1.3 × haproxy", func(f figures) float64 { return f.idleConn }},
}

// report prints medians, and below them those of ours ÷ theirs in the same round, with the least and the most.
func report(w io.Writer, names []string, results map[string][]figures) {
	head, line := "| |", "|---|"
	for _, name := range names {
		head, line = head+" "+name+" |", line+"--:|"
	}
	fmt.Fprintf(w, "%s budget |\n%s---|\n", head, line)
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |", r.name)
		for i, name := range names {
			var values, ratios measure.Spread
			for round, f := range results[name] {
				values = append(values, r.of(f))
				if ours := results[names[0]]; i > 0 && round < len(ours) && r.of(f) > 0 && r.of(ours[round]) > 0 {
					ratios = append(ratios, r.of(ours[round])/r.of(f))
				}
			}
			fmt.Fprintf(w, " "+r.format, measure.Quantile(values, .5))
			if len(ratios) > 0 {
				fmt.Fprint(w, "<br>", ratios.Format("%.2f"))
			}
			fmt.Fprint(w, " |")
		}
		fmt.Fprintf(w, " %s |\n", r.budget)
	}
}
