// Command tlsstacks shows that trust never gaps while the CA is replaced, in TLS
// stacks that are not Go's as well: every server generation that can be in use
// at the same time as a client's bundle verifies under it, and what may not be
// verified is refused.
//
// It serves, on loopback, what servingcert serves in each generation of a CA:
// the leaf and the ladder of cross-certificates. Then it has every TLS stack
// that is installed (Go, OpenSSL, curl, GnuTLS, Python, Java, Node) make a real
// connection to each server with each bundle, and prints a table of servers and
// bundles with the stacks that verified. It exits 1 on any hole: a connection
// that has to succeed and does not, one that has to be refused and is not, and
// one that failed for another reason than the certificate.
//
//	make tlsstacks                      the table
//	make tlsstacks REQUIRED="openssl"   fail if a stack is missing
//	go run ./test/tlsstacks --update    write the table into docs/tls-stacks.md
package main
