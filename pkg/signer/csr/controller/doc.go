// Package controller answers CertificateSigningRequests that are addressed to this signer,
// as package csr decides. An answer costs a write for the approval, with a read of the
// request before it, and one for the certificate; each of the two decisions reads the
// requester's pod, and asks for SubjectAccessReviews if that is not enough.
package controller
