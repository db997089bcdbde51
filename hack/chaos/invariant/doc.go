// Package invariant says what must hold of a cluster after a fault. It judges what was
// seen, and asks nobody: each function returns one line for each violation.
package invariant
