// Package handshake is a client that makes handshakes with a set of servers all the time,
// verifies each with a bundle file, and records the number of handshakes, failures and their
// causes, durations, and when each certificate was first served. The end-to-end scenes run it
// in a pod (workloads/client) and get its [Report] over HTTP.
package handshake
