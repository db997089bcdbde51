// Package serving decides which pods serve the certificate in their Secret, which still serve an
// older one, and the content of condition Serving of their Services.
//
// A rotation is complete when the pods serve the new certificate, not when the Secret contains it.
// The kubelet takes up to 92 s to bring a changed Secret to a pod, and a server may read its files
// only once. So each ready pod that mounts the key of an issued Secret is dialled, and its
// certificate is compared with the one in condition Ready of a Service. Nothing here reads a
// Secret.
//
// The unit of work is a key: that of a Secret ([SecretSituation], [Decision]), or the pods' own
// keys in a namespace ([PodKeySituation]):
//
//	certificate.follow    which leaf should be served, and since when: the signer
//	                      writes it into the Ready conditions; a new leader reads
//	                      the Serving conditions
//	endpointOf            where a pod is dialled: the TLS ports of its Services
//	                      (api.Needs), and their name
//	consumer.state        the State of a pod, by its answers
//	consumer.next         when it is dialled again: soon if it is about to change,
//	                      rarely otherwise
//	schedule              which pods are dialled now, and when to decide again
//	reached               how long a certificate took to reach a pod
//	statement             the condition of a Service, by all pods and ports
//	consumer.guardAt      what a port does to clients that no list names ([probe.Guard]),
//	guardStatement        and condition Guarded of a Service that lists its clients
//	Keyless               the pods behind a Service that mount no key, and so are
//	                      not dialled, but keep its condition from being True
//
// Two interfaces hide the differences between the two kinds of keys: standard evaluates answers,
// and subject selects, dials and reports pods.
//
// Guarded ports are dialled as others, because the first client that is not listed is the one without a certificate. An answer
// counts until the list changes: what refused under one list may admit under the next.
//
// A leaf that a pod serves is current, an older one of the Secret, or foreign. The current one without
// an intermediate that clients need counts as an older one. Pods that serve an older one after the
// propagation time are stale. Their workload is a [StaleWorkload], which an event reports and package
// restart may restart. A foreign leaf has no consequence: a service mesh's proxy answers, or the server
// reads other files. Package probe distinguishes them.
//
// Pods whose kubelets make their keys do not share a leaf. Those of a namespace are one unit of
// work. Their leaves are evaluated one by one (trusted): by the names of the pod and its Services,
// by the published roots, by the CA generation that signs, and by the time at which the kubelet
// should have replaced the leaf. Until that time, which cannot be brought forward, a leaf to be
// replaced is propagating, and afterwards stale. Observations of these pods ([Seen]) are part of
// the conditions of Services with a Secret. A pod with a Secret and its own key is evaluated with
// these pods. A pod with a Secret that one Service keeps and another requests is counted with the
// Secret.
//
// The state between two decisions is [KeyState]. It is lost with the process, except for the
// certificate and its time, which the conditions store. A new process does not know yet which pods
// are stale.
//
// The package is pure; its controller is in package serving/controller.
package serving
