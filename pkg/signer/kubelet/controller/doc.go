// Package controller approves and denies the CertificateSigningRequests of kubelets for their
// serving certificates, as package kubelet decides. An answer costs a read of the request and
// one write; the names and addresses of Nodes come from a cache.
package controller
