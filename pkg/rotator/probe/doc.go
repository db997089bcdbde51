// Package probe evaluates the answers of TLS servers that were dialled: the kind of the answer
// ([HandshakeOutcome]), whether a shown certificate is one of a Secret ([Target.Answer]), and how
// answers follow one another ([Merge]), and whether a port refuses clients that no list names
// ([Guard], [JudgementOf]). It also decides which pod is dialled next ([Queue]), which
// pods do not answer in time ([UnresponsivePods]), and which addresses are not dialled
// ([Addresses]).
//
// A server is identified by the certificate that it shows and whose key it proves to have. The
// certificate is not verified here: the question is which one is served, not whether to trust it.
//
// The package is pure. Package probe/dial dials, for the rotator and for the command-line tool, and
// package probe/controller dials many pods.
package probe
