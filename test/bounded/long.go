//go:build long

package bounded

// Long is whether build tag long is set: see the other one.
const Long = true
