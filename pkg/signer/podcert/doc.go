// Package podcert decides about PodCertificateRequests (KEP-4317), in which a kubelet requests
// a certificate for a key that it generated for a pod. The certificate has the names of the
// Services that select the pod and request a certificate. The package is pure; package
// controller below it watches the requests, reads the pod and writes the answer.
//
// A request is answered once, and Denied and Failed are final for the pod, also when its
// certificate is refreshed. So a request that may become valid is never denied: it waits, with
// an event on its pod, and is decided again when a Service, the namespace or the CA changes.
//
//	gather*         Request, the pod, its Services, the CA  -> Situation
//	Decide          Situation                               -> Decision: sign, deny or wait, and why
//	Issued, Denied  issue.Issued, Decision                  -> the status to write
package podcert
