package app

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// memoryFiles hold the memory limit of the container, in bytes: of cgroups 2 and 1.
var memoryFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// memoryLimit returns the memory limit of the container, or 0.
func memoryLimit(files []string) uint64 {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err == nil && n < math.MaxInt64/2 { // "max", and the largest number there is, are no limit
			return n
		}
	}
	return 0
}

// useMemory has the garbage collector work harder before the container's limit is reached, where
// it would be killed, and returns the limit, or 0.
func useMemory() uint64 {
	limit := memoryLimit(memoryFiles)
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(limit / 10 * 8))
	}
	return limit
}

// descriptors returns how many file descriptors the process may open. The Go runtime has raised
// the limit as far as it may.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return limit.Cur
}
