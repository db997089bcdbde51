// Package csr decides about CertificateSigningRequests that are addressed to this signer: a
// workload, a host or a person made a key, and asks for a certificate with names of
// Services. It is pure; package controller below it watches the requests, reads what a
// decision needs, and writes the answer.
//
// The requester may serve a Service if it is a living pod that the Service selects, or if
// a SubjectAccessReview grants it verb VerbServe on the Service. Each name that it asks
// for must be one that such a Service may have. The certificate has exactly those names,
// or there is none.
//
//	FactsOf  the object                                -> Facts: what is kept while it waits
//	Scope    Request                                   -> which Services are needed
//	gather*  Request, its pod, the Services, the CA    -> Situation
//	Decide   Situation                                 -> Decision: what is done, and why
//	Answer   Decision, the signed certificate          -> what is written into the request
//
// Approval and certificate are separate writes. A request that is approved is decided about
// like any other, so that a signer that stopped in between, or another leader, goes on where
// the first one was, and what is signed is what is right when it is signed.
package csr
