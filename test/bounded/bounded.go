// Package bounded measures what code costs, for tests that hold it to a limit. None of
// its numbers is a duration, so a busy machine does not change them.
package bounded

import "runtime"

// Allocated returns how many bytes f allocates, whether they are freed again or not. No
// other goroutine should allocate meanwhile.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
