// Package controller answers CertificateSigningRequests for this signer as package csr
// decides. An answer costs a read of the request, one of the requester's pod if it is a pod,
// SubjectAccessReviews if that is not enough, and two writes: the approval and the certificate.
package controller
