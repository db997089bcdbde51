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

// history describes the processes of a program that have exited since Reset.
type history struct {
	ends []string
	used Usage
}

// Usage is the resource usage of a program.
type Usage struct {
	CPU  time.Duration
	Peak float64 // bytes of resident memory
}

// count adds the usage of a process that has exited.
func (h *history) count(state *os.ProcessState) {
	h.used.CPU += state.UserTime() + state.SystemTime()
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		h.used.Peak = max(h.used.Peak, float64(usage.Maxrss<<10)) // KiB on Linux: getrusage(2)
	}
}

// Ends returns the reason of each unexpected exit since Reset.
func (p *Program) Ends() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.history.ends)
}

// Reset makes Used and Ends start from now. If the program is about to be restarted, they start from
// its next process.
func (p *Program) Reset() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.process == nil {
		p.history = history{}
		return nil
	}
	pid := p.run.process.Process.Pid
	cpu, err := CPUTime(pid)
	if err != nil {
		return err
	}
	p.history = history{used: Usage{CPU: -cpu}}
	// 5 resets the peak to the current value: proc_pid_clear_refs(5).
	return os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "clear_refs"), []byte("5"), 0)
}

// Used returns the usage since Reset, or since the first start.
func (p *Program) Used() Usage {
	pid := p.PID()
	cpu, _ := CPUTime(pid) // an exited process is in history
	peak, _ := PeakRSS(pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{p.history.used.CPU + cpu, max(p.history.used.Peak, peak)}
}

// Collections reads the program's garbage collections from its log.
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

// PeakRSS returns the peak resident memory of a process, in bytes.
func PeakRSS(pid int) (float64, error) { return memory(pid, "VmHWM:") }

// RSS returns the resident memory of a process, in bytes.
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

// FamilyCPU returns the CPU time of a process and its running children.
func FamilyCPU(pid int) (sum time.Duration) {
	for _, each := range family(pid) {
		own, _ := CPUTime(each)
		sum += own
	}
	return sum
}

// FamilyRSS returns the resident memory of a process and the unshared memory of its children, in bytes.
func FamilyRSS(pid int) (sum float64) {
	field := "VmRSS:"
	for _, each := range family(pid) {
		own, _ := memory(each, field)
		sum, field = sum+own, "RssAnon:"
	}
	return sum
}
