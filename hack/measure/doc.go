// Package measure starts a control plane and the processes to be measured, makes Services in
// bulk, and reads what all of them used: CPU time from the process table, memory, bytes in
// etcd, garbage collections, and requests from metrics and from the API server.
package measure
