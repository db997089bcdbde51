// Package probe says what a dial of a TLS server means: which kind of answer it
// is ([Judge]), whether a certificate that was shown is one of a Secret
// ([Visit.Answer]), and how answers follow one another ([Merge]). It also decides
// which pod is dialled next ([Queue]), which pods do not answer in time ([Silences]), and
// which addresses are not dialled ([Addresses]).
//
// Whoever answers is judged by the certificate that it shows and proves to have
// the key of. It is not verified here: what is asked is which certificate is
// served, and not whether to trust it.
//
// The package is pure. Package probe/dial dials, for the rotator and for the
// command-line tool alike, and package probe/controller dials many pods.
package probe
