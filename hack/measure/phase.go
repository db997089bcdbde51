package measure

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

// Phase is what a stretch of work took.
type Phase struct {
	N      int // certificates
	Took   time.Duration
	CPU    map[string]time.Duration // by process
	Stored float64                  // bytes by which etcd's data grew
}

// Rate is how many certificates a second.
func (p Phase) Rate() float64 { return float64(p.N) / p.Took.Seconds() }

// CPUEach is the CPU time of a process for one certificate, in milliseconds.
func (p Phase) CPUEach(process string) float64 {
	return p.CPU[process].Seconds() * 1000 / float64(p.N)
}

// Names of processes whose CPU time is read, beside those of the control plane.
const (
	TheBench   = "bench" // the program that measures
	TheSigner  = "signer"
	TheRotator = "rotator"
)

// Meter measures a phase.
type Meter struct {
	c      *Cluster
	Start  time.Time
	pids   map[string]int
	cpu    map[string]time.Duration
	stored float64
}

// Begin starts to measure a phase: the control plane, the program that measures, and the
// given processes by name.
func (c *Cluster) Begin(ctx context.Context, processes map[string]*Process) (*Meter, error) {
	m := &Meter{c: c, pids: c.Plane.PIDs()}
	m.pids[TheBench] = os.Getpid()
	for name, p := range processes {
		m.pids[name] = p.PID()
	}
	var err error
	if m.stored, err = c.Stored(ctx); err != nil {
		return nil, err
	}
	m.cpu, err = cpuTimes(m.pids)
	m.Start = time.Now()
	return m, err
}

// End returns what was used since Begin for n certificates.
func (m *Meter) End(ctx context.Context, n int) (Phase, error) {
	p := Phase{N: n, Took: time.Since(m.Start)}
	cpu, err := cpuTimes(m.pids)
	if err != nil {
		return Phase{}, err
	}
	for who := range cpu {
		cpu[who] -= m.cpu[who]
	}
	p.CPU = cpu
	stored, err := m.c.Stored(ctx)
	p.Stored = stored - m.stored
	return p, err
}

// cpuTimes reads the CPU time of processes.
func cpuTimes(pids map[string]int) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for who, pid := range pids {
		var err error
		if times[who], err = process.CPUTime(pid); err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", who, err)
		}
	}
	return times, nil
}

// Stored is how many bytes of etcd's database are in use.
func (c *Cluster) Stored(ctx context.Context) (float64, error) {
	m, err := process.Scrape(ctx, c.Plane.EtcdURL()+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("metrics of etcd: %w", err)
	}
	return m.Sum("etcd_mvcc_db_total_size_in_use_in_bytes"), nil
}
