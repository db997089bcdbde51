// Package bounded measures what code costs, for tests that hold it to a limit. It counts bytes.
// With build tag long it also measures processor time: who else uses the machine, and its clock
// and its caches, changes that.
package bounded

import (
	"fmt"
	"math"
	"runtime"
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
