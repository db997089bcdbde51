package app

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// memoryFiles contain the container's memory limit in bytes, under cgroup v2 and v1.
var memoryFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// memoryLimit returns the container's memory limit in bytes, or 0 if there is none.
func memoryLimit(files []string) uint64 {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err == nil && n < math.MaxInt64/2 { // "max" and the largest number mean no limit
			return n
		}
	}
	return 0
}

// useMemory sets the runtime's soft memory limit below the container's, at which the container would
// be killed. It returns the container's limit, or 0.
func useMemory() uint64 {
	limit := memoryLimit(memoryFiles)
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(limit / 10 * 8))
	}
	return limit
}

// descriptors returns the maximum number of open file descriptors. The Go runtime has already raised
// the soft limit to the hard one.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return limit.Cur
}
