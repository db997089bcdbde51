// Package programs describes how programs are configured to serve TLS with a certificate
// in files. It is pure data and its parser: programs.yaml is the built-in table, and
// [Parse] reads entries that an operator adds.
//
//	table := programs.Builtin()
//	program, ok := table.ByExecutable("nats-server")
//
// Package mutate injects what the entry of a container's program describes.
package programs
