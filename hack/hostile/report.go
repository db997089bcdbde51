package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
)

// report is what the two rounds gave.
type report struct {
	duration       time.Duration
	quiet, hostile *result
}

func (r report) print(out io.Writer) {
	fmt.Fprintf(out, "\nservingcert hostile: %s, %d cores, %s alone, %[3]s under attack (%d of %d), %s\n\n",
		runtime.Version(), runtime.NumCPU(), r.duration, len(r.hostile.attacks), len(attacks()), time.Now().UTC().Format("2006-01-02"))
	installed.Table(out, r.tenant())
	installed.Table(out, r.processes())
	installed.Table(out, r.attacks())
	for _, each := range []struct {
		when string
		*result
	}{{"alone", r.quiet}, {"under attack", r.hostile}} {
		if s := each.succession; s.took > 0 {
			fmt.Fprintf(out, "a new generation of the CA, asked for %s, signed after %s\n", each.when, short(s.took))
		} else {
			fmt.Fprintf(out, "a new generation of the CA, asked for %s, does not sign; it waits for: %.300s\n", each.when, s.waitingFor)
		}
	}
}

func (r report) tenant() [][]string {
	out := [][]string{{"the first tenant", "alone: n", "p50", "p99", "attacked: n", "p50", "p99", "p50 ×", "p99 ×", "failed", "not in time"}}
	for i := range rows {
		q, h := r.quiet.rows[i], r.hostile.rows[i]
		out = append(out, []string{
			i.String(),
			fmt.Sprint(len(q.took)), short(process.Quantile(q.took, 0.5)), short(process.Quantile(q.took, 0.99)),
			fmt.Sprint(len(h.took)), short(process.Quantile(h.took, 0.5)), short(process.Quantile(h.took, 0.99)),
			times(process.Quantile(h.took, 0.5), process.Quantile(q.took, 0.5)), times(process.Quantile(h.took, 0.99), process.Quantile(q.took, 0.99)),
			fmt.Sprintf("%d, %d", q.failed, h.failed), fmt.Sprintf("%d, %d", q.late, h.late),
		})
	}
	return out
}

func (r report) processes() [][]string {
	out := [][]string{{"process", "restarts", "peak RSS alone", "attacked", "limit", "CPU alone", "attacked"}}
	for i, q := range r.quiet.processes {
		h := r.hostile.processes[i]
		out = append(out, []string{
			q.name, fmt.Sprint(len(q.restarts) + len(h.restarts)), installed.MiB(q.Peak), installed.MiB(h.Peak), installed.MiB(q.limit), seconds(q.CPU), seconds(h.CPU),
		})
	}
	for i, q := range r.quiet.others {
		out = append(out, []string{q.name, "", "", "", "", seconds(q.CPU), seconds(r.hostile.others[i].CPU)})
	}
	return out
}

func (r report) attacks() [][]string {
	out := [][]string{{"attack", "requests", "refused", "what it is"}}
	for _, a := range r.hostile.attacks {
		out = append(out, []string{a.name, fmt.Sprint(a.sent), fmt.Sprint(a.refused), a.what})
	}
	return out
}

// failures are what makes the exit code 1.
func (r report) failures() []string {
	var out []string
	for _, each := range []struct {
		when string
		*result
	}{{"alone", r.quiet}, {"under attack", r.hostile}} {
		for _, p := range each.processes {
			for _, why := range p.restarts {
				out = append(out, fmt.Sprintf("%s: %s was started again: %s", each.when, p.name, why))
			}
			if p.limit > 0 && p.Peak > p.limit {
				out = append(out, fmt.Sprintf("%s: %s had %s resident: its limit is %s", each.when, p.name, installed.MiB(p.Peak), installed.MiB(p.limit)))
			}
		}
		for i := range rows {
			s := each.rows[i]
			if s.failed+s.late > 0 {
				out = append(out, fmt.Sprintf("%s: %s: %d failed, %d not within %s: %s", each.when, i, s.failed, s.late, patience, strings.Join(s.errors, "; ")))
			}
			if len(s.took) == 0 && s.failed+s.late == 0 {
				out = append(out, fmt.Sprintf("%s: %s: nothing was measured", each.when, i))
			}
		}
	}
	for _, a := range r.hostile.attacks {
		if a.breaches > 0 {
			out = append(out, fmt.Sprintf("attack %s: %d times something that it must not get, the last: %s", a.name, a.breaches, a.lastBreach))
		}
	}
	return out
}

// short writes a duration with two or three digits: 9.1 ms, 3.2 s; nothing for none.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func times(a, b time.Duration) string {
	if a == 0 || b == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", a.Seconds()/b.Seconds())
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
