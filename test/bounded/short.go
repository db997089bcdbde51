//go:build !long

package bounded

// Long is whether build tag long is set. Without it tests draw less, and measure no time.
const Long = false
