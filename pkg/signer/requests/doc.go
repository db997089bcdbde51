// Package requests is shared by the controllers of PodCertificateRequests and
// CertificateSigningRequests, whose private keys other parties hold. It reads the input of
// decisions ([Cluster]), and tracks the pending requests: when each is decided again, the
// order between tenants, and the events and metrics ([Followed]). Packages podcert, csr and
// kubelet decide; their controllers write the answers.
package requests
