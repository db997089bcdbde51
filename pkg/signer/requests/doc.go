// Package requests is what the controllers share that answer requests for certificates
// whose keys others hold: PodCertificateRequests and CertificateSigningRequests. It reads
// what a decision depends on ([Cluster]), and follows the requests: which wait, when they
// are looked at again, in whose turn, and what this process has done about them
// ([Followed]). Packages podcert and csr decide; their controllers write the answers.
package requests
