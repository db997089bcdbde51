// Package controller approves and denies the CertificateSigningRequests of kubelets for their
// serving certificates, as package kubelet decides. An answer costs a read of the request and
// one write; the Nodes are in a cache, of each its names and addresses.
package controller
