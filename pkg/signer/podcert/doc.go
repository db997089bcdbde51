// Package podcert decides about PodCertificateRequests (KEP-4317): the kubelet made a key
// for a pod, and asks for a certificate. The pod has the names of the Services that
// select it and ask for a certificate. It is pure; package controller below it watches
// the requests, reads the pod and writes the answer.
//
// A request is answered once, and Denied or Failed are final for the pod, on a refresh
// as well. So what could become right is never denied: the request waits, with an event on
// its pod, and is decided again when a Service, the namespace or the CA changes.
//
//	gather*  Request, the pod, its Services, the CA  -> Situation
//	Decide   Situation                               -> Decision: sign, deny or wait, and why
//	Answer   Decision, the signed certificate        -> what is written into the request's status
package podcert
