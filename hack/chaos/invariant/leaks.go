package invariant

import (
	"fmt"
	"maps"
	"slices"
)

// Usage is what a process holds.
type Usage struct {
	Goroutines int
	Resident   int64 // bytes
}

// Max returns the larger part of each.
func (u Usage) Max(v Usage) Usage {
	return Usage{max(u.Goroutines, v.Goroutines), max(u.Resident, v.Resident)}
}

// How much more than at the beginning, when it was settled, a process may hold after the
// faults: a quarter more goroutines and 30, half as much memory again and 32 MiB.
const (
	moreGoroutines = 30
	moreResident   = 32 << 20
)

// bound returns the most that a process which held u may hold.
func (u Usage) bound() Usage {
	return Usage{u.Goroutines + u.Goroutines/4 + moreGoroutines, u.Resident + u.Resident/2 + moreResident}
}

// Leaks checks what processes hold after the faults, by kind of process.
func Leaks(before, after map[string]Usage) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		now, bound := after[name], before[name].bound()
		if now.Goroutines > bound.Goroutines {
			out = append(out, fmt.Sprintf("%s has %d goroutines, had %d: at most %d", name, now.Goroutines, before[name].Goroutines, bound.Goroutines))
		}
		if now.Resident > bound.Resident {
			out = append(out, fmt.Sprintf("%s has %d MiB resident, had %d: at most %d", name, now.Resident>>20, before[name].Resident>>20, bound.Resident>>20))
		}
	}
	return out
}
