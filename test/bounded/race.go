//go:build race

package bounded

// RaceFactor is how many times as much may be allocated. With the race detector sync.Pool
// drops what it is given at random, and a regular expression allocates what it works with.
const RaceFactor = 16
