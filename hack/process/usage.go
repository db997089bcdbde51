package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// history is what is known of the processes of a program that have ended, since Reset.
type history struct {
	ends []string
	used Usage
}

// Usage is what a program used.
type Usage struct {
	CPU  time.Duration
	Peak float64 // bytes of resident memory
}

// count notes what a process used that has ended.
func (h *history) count(state *os.ProcessState) {
	h.used.CPU += state.UserTime() + state.SystemTime()
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		h.used.Peak = max(h.used.Peak, float64(usage.Maxrss<<10)) // KiB on Linux: getrusage(2)
	}
}

// Ends returns the reasons for which the program ended unexpectedly since Reset, one for each time.
func (p *Program) Ends() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.history.ends)
}

// Reset discards what Used and Ends have counted so far.
func (p *Program) Reset() error {
	pid := p.PID()
	cpu, err := CPUTime(pid)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history = history{used: Usage{CPU: -cpu}}
	// 5 sets the peak to what is resident now: proc_pid_clear_refs(5).
	return os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "clear_refs"), []byte("5"), 0)
}

// Used returns what the program used since Reset, or since it was started first.
func (p *Program) Used() Usage {
	pid := p.PID()
	cpu, _ := CPUTime(pid) // one that has ended was counted
	peak, _ := PeakRSS(pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{p.history.used.CPU + cpu, max(p.history.used.Peak, peak)}
}

// Collections reads from the log what the program's garbage collector did so far.
func (p *Program) Collections() (Collections, error) {
	log, err := os.Open(p.Log.File)
	if err != nil {
		return Collections{}, err
	}
	c, err := ReadCollections(log)
	return c, errors.Join(err, log.Close())
}

// CPUTime reads the CPU time of a process from the process table, in steps of 10 ms.
func CPUTime(pid int) (time.Duration, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := proc.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// PeakRSS is the most memory that a process had resident, in bytes.
func PeakRSS(pid int) (float64, error) { return memory(pid, "VmHWM:") }

// RSS is the memory that a process has resident, in bytes.
func RSS(pid int) (float64, error) { return memory(pid, "VmRSS:") }

// memory reads a size from /proc/PID/status: proc_pid_status(5).
func memory(pid int, field string) (float64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in the status of process %d", field, pid)
}

// family returns a process and its children.
func family(pid int) []int {
	all := []int{pid}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	for field := range strings.FieldsSeq(string(children)) {
		child, _ := strconv.Atoi(field)
		all = append(all, child)
	}
	return all
}

// FamilyCPU is the CPU time of a process and its children, as far as they run.
func FamilyCPU(pid int) (sum time.Duration) {
	for _, each := range family(pid) {
		own, _ := CPUTime(each)
		sum += own
	}
	return sum
}

// FamilyRSS is the memory that a process has resident, in bytes, and what its children do not share
// with it.
func FamilyRSS(pid int) (sum float64) {
	field := "VmRSS:"
	for _, each := range family(pid) {
		own, _ := memory(each, field)
		sum, field = sum+own, "RssAnon:"
	}
	return sum
}
