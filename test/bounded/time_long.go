//go:build long

package bounded

import (
	"fmt"
	"syscall"
	"time"
)

// Took returns an error if f takes more processor time than that: the least of some runs.
func Took(most time.Duration, f func()) error {
	if took := least(f); took > most {
		return fmt.Errorf("%s of processor time, want at most %s", took, most)
	}
	return nil
}

// Growth returns how many times as much processor time large takes as small: the least of
// some runs of each. Time that the machine gives to others does not count.
func Growth(small, large func()) float64 {
	return float64(least(large)) / float64(max(least(small), time.Microsecond))
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
