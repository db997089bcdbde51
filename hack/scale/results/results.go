// Package results keeps what was measured for several sizes, and prints how it grows.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
)

// Row is a figure that was measured for several sizes.
type Row struct {
	Part string // of the benchmark; its rows are one table
	What string
	Unit string
	At   map[int]float64 // by size
}

// Results are the rows in the order in which they were first measured.
type Results struct {
	Rows []*Row
	file string
}

// Open reads the results of earlier runs from a file, which need not exist; "" keeps
// them nowhere.
func Open(file string) (*Results, error) {
	r := &Results{file: file}
	if file == "" {
		return r, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// Save writes the results to the file that they were read from.
func (r *Results) Save() error {
	if r.file == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.file, append(data, '\n'), 0o600)
}

// Set notes a figure, in place of an earlier one of the same size.
func (r *Results) Set(part, what, unit string, size int, value float64) {
	i := slices.IndexFunc(r.Rows, func(row *Row) bool { return row.Part == part && row.What == what })
	if i < 0 {
		i = len(r.Rows)
		r.Rows = append(r.Rows, &Row{Part: part, What: what, At: map[int]float64{}})
	}
	r.Rows[i].Unit, r.Rows[i].At[size] = unit, value
}

// Exponent is the slope of the straight line through the logarithms of sizes and figures, by
// least squares: 0 does not grow, 1 grows as the size does, 2 as its square. It is false if
// fewer than two sizes have a figure above 0.
func (row *Row) Exponent() (float64, bool) {
	var n, sx, sy, sxx, sxy float64
	for size, value := range row.At {
		if size <= 0 || value <= 0 {
			continue
		}
		x, y := math.Log(float64(size)), math.Log(value)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	d := n*sxx - sx*sx
	if n < 2 || d == 0 {
		return 0, false
	}
	return (n*sxy - sx*sy) / d, true
}

// Print writes a table in Markdown for each part.
func (r *Results) Print(out io.Writer) {
	var parts []string
	for _, row := range r.Rows {
		if !slices.Contains(parts, row.Part) {
			parts = append(parts, row.Part)
		}
	}
	for _, part := range parts {
		r.printPart(out, part)
	}
}

func (r *Results) printPart(out io.Writer, part string) {
	var rows []*Row
	var sizes []int
	for _, row := range r.Rows {
		if row.Part != part {
			continue
		}
		rows = append(rows, row)
		for size := range row.At {
			if !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
		}
	}
	slices.Sort(sizes)
	fmt.Fprintf(out, "\n### %s\n\n", part)
	head, rule := []string{"what"}, []string{"---"}
	for _, size := range sizes {
		head, rule = append(head, fmt.Sprint(size)), append(rule, "--:")
	}
	line(out, append(head, "exponent"))
	line(out, append(rule, "--:"))
	for _, row := range rows {
		cells := []string{row.What}
		for _, size := range sizes {
			cells = append(cells, row.cell(size))
		}
		exponent := ""
		if e, ok := row.Exponent(); ok {
			exponent = fmt.Sprintf("%.2f", e)
		}
		line(out, append(cells, exponent))
	}
}

func line(out io.Writer, cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }

// cell is the figure of a size with its unit, to three digits.
func (row *Row) cell(size int) string {
	value, ok := row.At[size]
	if !ok {
		return ""
	}
	text := fmt.Sprintf("%.0f", value)
	switch v := math.Abs(value); {
	case v == math.Trunc(v):
	case v < 10:
		text = fmt.Sprintf("%.2f", value)
	case v < 100:
		text = fmt.Sprintf("%.1f", value)
	}
	if row.Unit != "" {
		text += " " + row.Unit
	}
	return text
}
