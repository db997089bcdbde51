package main

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/installed"
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
	installed.Table(out, r.faultRows())
	installed.Table(out, r.usageRows())
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
		out = append(out, []string{kind, fmt.Sprint(b.Goroutines), fmt.Sprint(a.Goroutines), installed.MiB(float64(b.Resident)), installed.MiB(float64(a.Resident))})
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

// short writes a duration in seconds.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
