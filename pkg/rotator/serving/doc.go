// Package serving decides who serves what: which pods serve the certificate that is
// in their Secret, which still serve an older one, and what condition Serving of
// their Services is to say.
//
// A rotation is complete when the pods serve the new certificate, not when the
// Secret holds it. The kubelet takes up to 92 s to carry a changed Secret to a pod,
// and a server may read its files only once. So the pods are asked: each ready pod
// that mounts the key of an issued Secret is dialled, and the certificate that it
// shows is compared with the one that condition Ready of a Service names. Nothing
// here reads a Secret.
//
// The unit of work is a key: that in a Secret ([SecretSituation], [Decision]), or those that
// the pods of a namespace have of their own ([PodKeySituation]):
//
//	certificate.follow    which leaf is to be served, and since when: the signer
//	                      writes it into the Ready conditions; a new leader goes on
//	                      with what the Serving conditions say
//	endpointOf            where a pod is dialled: the ports for which its Services
//	                      offer TLS (api.Needs), and their name
//	consumer.state        what a pod is called, by its answers (State)
//	consumer.next         when it is dialled again: often while something is about
//	                      to change, rarely otherwise
//	agenda                which pods are dialled now, and when to look again
//	reached               how long a certificate took to a pod
//	statement             what its Service says about all of them, at each of its ports
//
// In what the two differ is behind two interfaces: standard is what an answer is judged by,
// and subject is what is asked of a pod and what follows from the answers.
//
// A leaf that a pod serves is current, or an older one of the Secret, or foreign.
// An older one may be acted on: pods that serve it after the propagation time are
// stale, and their workload is a [StaleWorkload], which an event reports and package
// restart may restart. A foreign one is never acted on: a service mesh's proxy
// answers, or the server reads other files. What tells them apart is in package
// probe.
//
// Pods whose kubelets make their keys have no leaf in common. The pods of a namespace
// that have such keys are one unit of work. Such a leaf is judged by itself (trusted): by
// the names of the pod and its Services, by the roots that are published, by the generation
// that signs, and by the time at which its kubelet should have replaced it. Nobody can hasten that:
// what is to be replaced is propagating until then, and stale afterwards. What was seen
// of these pods ([Seen]) is part of the conditions of Services with a Secret. A pod that
// mounts a Secret beside a key of its own is judged with these pods, and one with a Secret
// that one Service keeps and another asks for is counted with the Secret.
//
// What is remembered between two decisions is [Memory]. It is lost with the
// process, except for the certificate and its time, which the conditions keep. A
// process that has just begun does not know yet what is stale.
//
// The package is pure; its controller is in package serving/controller.
package serving
