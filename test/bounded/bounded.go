// Package bounded measures what code costs, for tests that hold it to a limit. It counts bytes.
// With build tag long it also measures processor time, which who else uses the machine changes.
package bounded

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Allocated returns how many bytes f allocates, whether they are freed again or not: the
// least of three runs, as the first run also allocates what is made once and kept. No other
// goroutine should allocate meanwhile.
func Allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// Kept returns how many bytes what f returns keeps from being freed, beside what all calls share. No other goroutine should
// allocate meanwhile.
func Kept[T any](f func() T) uint64 {
	const times = 16
	kept := make([]T, times)
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // what is in a sync.Pool survives the first one
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	f()
	before := heap()
	for i := range kept {
		kept[i] = f()
	}
	after := heap()
	runtime.KeepAlive(kept)
	return (max(after, before) - before) / times
}

// Growth returns how many times as much processor time large takes as small: the least of
// some runs of each. Time that the machine gives to others does not count.
func Growth(small, large func()) float64 {
	return float64(least(large)) / float64(max(least(small), time.Microsecond))
}

// Took returns an error if f takes more processor time than that: the least of some runs. Without
// build tag long it returns nil, and does not run f.
func Took(most time.Duration, f func()) error {
	if !Long {
		return nil
	}
	if took := least(f); took > most {
		return fmt.Errorf("%s of processor time, want at most %s", took, most)
	}
	return nil
}

func least(f func()) time.Duration {
	best := time.Duration(0)
	for i := range 5 {
		before := used()
		f()
		if took := used() - before; i == 0 || took < best {
			best = took
		}
	}
	return best
}

// used returns the processor time of the process.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // only for a wrong argument
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Checks has rapid draw so few times in a test whose draws are costly. With build tag long, or if
// -rapid.checks says how often, it changes nothing.
func Checks(tb testing.TB, few int) {
	tb.Helper()
	checks := flag.Lookup("rapid.checks").Value
	usual := checks.String()
	if Long || usual != "100" {
		return
	}
	if err := checks.Set(strconv.Itoa(few)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = checks.Set(usual) })
}

// What Check lets code take: far more than what reads its input a few
// times needs, on a slow and busy machine, and far less than what compares all of it with all
// of it.
const (
	bytesPerByte, bytesAtLeast = 64, 256 << 10
	timePerByte, timeAtLeast   = 2 * time.Microsecond, 100 * time.Millisecond
)

// Check returns an error if f, which reads so many bytes, allocates more or, see Took, takes more
// processor time than in proportion to that. It is for fuzz targets.
func Check(size int, f func()) error {
	allocated := Allocated(f)
	if most := uint64(bytesAtLeast+bytesPerByte*size) * RaceFactor; allocated > most {
		return fmt.Errorf("%d bytes read: %d bytes allocated, want at most %d", size, allocated, most)
	}
	return Took((timeAtLeast+timePerByte*time.Duration(size))*RaceFactor, f)
}
