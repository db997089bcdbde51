package installed

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Table prints rows of Markdown, the first as head.
func Table(out io.Writer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(out, "| %s%s ", cell, strings.Repeat(" ", width[i]-len([]rune(cell))))
		}
		fmt.Fprintln(out, "|")
		if n == 0 {
			for _, w := range width {
				fmt.Fprintf(out, "|%s", strings.Repeat("-", w+2))
			}
			fmt.Fprintln(out, "|")
		}
	}
	fmt.Fprintln(out)
}

// MiB writes a number of bytes.
func MiB(bytes float64) string { return fmt.Sprintf("%.0f MiB", math.Ceil(bytes/(1<<20))) }

// Short writes a duration with two or three digits: 9.1 ms, 3.2 s, 23 s.
func Short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
