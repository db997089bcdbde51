// Command tlsstacks shows for several TLS stacks that trust has no gap while the CA is replaced:
// clients accept the certificates of each generation that can be in use at the same time as their
// bundle, and reject all others.
//
// It serves, on loopback, the certificates of each generation of a CA: the leaf and its chain of
// cross-certificates. With every installed TLS stack (Go, OpenSSL, curl, GnuTLS, Python, Java, Node)
// it connects to each server with each bundle, and prints a table of servers and bundles with the
// stacks that accepted the certificate. It exits with 1 if there is a hole: a certificate that was
// wrongly rejected or accepted, or a connection that failed for another reason.
//
//	make tlsstacks                      the table
//	make tlsstacks REQUIRED="openssl"   fail if a stack is missing
//	go run ./test/tlsstacks --update    write the table into docs/tls-stacks.md
package main
