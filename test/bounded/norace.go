//go:build !race

package bounded

// RaceFactor is how many times as much may be allocated: see the other one.
const RaceFactor = 1
