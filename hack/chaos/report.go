package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
)

// row is what was seen of one fault.
type row struct {
	breakage
	held, settled time.Duration
	created       int
	renewed       int
	slowest       time.Duration // from a new Service to its Secret
	admissions    invariant.Admissions
	ends          int // of processes that nobody killed
	said          string
	violations    []string
}

// report is what was seen of all.
type report struct {
	options
	rows          []row
	before, after map[string]invariant.Usage
	seen          string
	violations    []string // of the whole run
}

func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\nservingcert chaos: %s, %d cores, %d Services in %d namespaces, each fault held for at least %s, %s\n\n",
		runtime.Version(), runtime.NumCPU(), r.services, r.namespaces, r.hold, time.Now().UTC().Format("2006-01-02"))
	table(out, r.faultRows())
	table(out, r.usageRows())
	for _, f := range r.rows {
		if f.said != "" {
			fmt.Fprintf(out, "%s: %s\n", f.name, f.said)
		}
	}
	fmt.Fprintf(out, "%s\n", r.seen)
}

func (r *report) faultRows() [][]string {
	out := [][]string{{"fault", "held", "all well after", "new Services", "slowest Secret", "renewals", "pods admitted", "refused, then admitted", "API away", "lost", "without certificate", "processes that ended", "violations"}}
	for _, f := range r.rows {
		if f.held == 0 {
			out = append(out, []string{f.name, "not done", "", "", "", "", "", "", "", "", "", "", ""})
			continue
		}
		a := f.admissions
		out = append(out, []string{
			f.name, short(f.held), short(f.settled), fmt.Sprint(f.created), short(f.slowest), fmt.Sprint(f.renewed),
			fmt.Sprint(a.Admitted), fmt.Sprint(a.Refused), fmt.Sprint(a.Away), fmt.Sprint(a.Lost), fmt.Sprint(a.Bare), fmt.Sprint(f.ends), fmt.Sprint(len(f.violations)),
		})
	}
	return out
}

func (r *report) usageRows() [][]string {
	out := [][]string{{"process", "goroutines before", "after", "resident before", "after"}}
	for _, kind := range []string{"signer", "trust", "rotator", "webhook"} {
		b, a := r.before[kind], r.after[kind]
		out = append(out, []string{kind, fmt.Sprint(b.Goroutines), fmt.Sprint(a.Goroutines), mib(b.Resident), mib(a.Resident)})
	}
	return out
}

// failures are what makes the exit code 1.
func (r *report) failures() []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, f := range r.rows {
		for _, v := range f.violations {
			out = append(out, f.name+": "+v)
		}
	}
	return append(out, r.violations...)
}

// table prints rows of Markdown, the first as head.
func table(out io.Writer, rows [][]string) {
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

// short writes a duration in seconds.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }
