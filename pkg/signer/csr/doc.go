// Package csr decides about CertificateSigningRequests for this signer. In each, a workload,
// a host or a person has a key and requests a certificate with names of Services. The package
// is pure; package controller below it watches the requests, reads the input of a decision,
// and writes the answer.
//
// The requester may serve a Service if it is a pod that the Service selects, or if a
// SubjectAccessReview grants it verb VerbServe on the Service. Each requested name must be
// one that such a Service may have. The certificate has exactly the requested names, or none
// is issued.
//
//	FactsOf      the object                              -> Facts: cached while the request is pending
//	ScopeOf      Request                                 -> Scope: the Services that are needed
//	gather*      Request, its pod, the Services, the CA  -> Situation
//	Decide       Situation                               -> Decision: what to do, and why
//	Approval     Decision                                -> the condition to write
//	Certificate  Decision, issue.Issued                  -> the chain to write
//
// Approval and certificate are separate writes. An approved request is decided again before it
// is signed, so the decision holds at the time of signing. Another leader can continue after a
// signer that stopped between the two writes.
package csr
