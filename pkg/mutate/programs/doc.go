// Package programs knows how programs are told to serve TLS with a certificate in files.
// It is pure data and its reading: programs.yaml is the table that is built in, and
// [Parse] reads entries that an operator adds.
//
//	table := programs.Builtin()
//	program, ok := table.ByExecutable("nats-server")
//
// Package mutate gives a container what the entry of its program says.
package programs
