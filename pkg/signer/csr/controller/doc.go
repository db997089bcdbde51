// Package controller answers CertificateSigningRequests that are addressed to this signer,
// as package csr decides. An answer costs a read of the request, one of the requester's pod
// or, if that is not enough, SubjectAccessReviews, and two writes: the approval, and the
// certificate.
package controller
