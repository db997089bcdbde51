// Package handshake is a client that shakes hands all the time with a set of
// servers, verifies each by a bundle file alone, and keeps account: how many
// handshakes, how many failed and why, how long they took, and when each
// certificate was served first. The end-to-end scenes run it in a pod
// (workloads/client) and ask it for its [Report] over HTTP.
package handshake
