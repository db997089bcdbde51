package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prometheus/procfs"
)

// phase is what a stretch of work took.
type phase struct {
	n      int // certificates
	took   time.Duration
	cpu    map[string]time.Duration // by process
	stored float64                  // bytes by which etcd's data grew
}

func (p phase) rate() float64 { return float64(p.n) / p.took.Seconds() }

// cpuEach is the CPU time of a process for one certificate, in milliseconds.
func (p phase) cpuEach(process string) float64 { return ms(p.cpu[process]) / float64(p.n) }

// The processes whose CPU time is measured, beside the control plane's.
const (
	theBench  = "bench"
	theSigner = "signer"
)

// meter measures a phase.
type meter struct {
	b      *bench
	pids   map[string]int
	start  time.Time
	cpu    map[string]time.Duration
	stored float64
}

// begin starts to measure a phase. signer is the process that works, nil if it is the
// bench alone.
func (b *bench) begin(ctx context.Context, signer *process) (*meter, error) {
	m := &meter{b: b, pids: b.plane.PIDs()}
	m.pids[theBench] = os.Getpid()
	if signer != nil {
		m.pids[theSigner] = signer.cmd.Process.Pid
	}
	var err error
	if m.stored, err = b.stored(ctx); err != nil {
		return nil, err
	}
	m.cpu, err = cpuTimes(m.pids)
	m.start = time.Now()
	return m, err
}

// end returns what was used since begin for n certificates.
func (m *meter) end(ctx context.Context, n int) (phase, error) {
	p := phase{n: n, took: time.Since(m.start)}
	cpu, err := cpuTimes(m.pids)
	if err != nil {
		return phase{}, err
	}
	for who := range cpu {
		cpu[who] -= m.cpu[who]
	}
	p.cpu = cpu
	stored, err := m.b.stored(ctx)
	p.stored = stored - m.stored
	return p, err
}

// cpuTimes reads the CPU time of processes from the process table, in steps of 10 ms.
func cpuTimes(pids map[string]int) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for who, pid := range pids {
		proc, err := procfs.NewProc(pid)
		if err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", who, err)
		}
		stat, err := proc.Stat()
		if err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", who, err)
		}
		times[who] = time.Duration(stat.CPUTime() * float64(time.Second))
	}
	return times, nil
}

// stored is how many bytes of etcd's database are in use.
func (b *bench) stored(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.plane.EtcdURL()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	m, err := scrape(request)
	if err != nil {
		return 0, fmt.Errorf("metrics of etcd: %w", err)
	}
	return m.sum("etcd_mvcc_db_total_size_in_use_in_bytes"), nil
}

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
