// Package rotator carries a rotation through to the pods: which of them serve
// what, and what to do about it. It only wires its parts together ([Setup]).
//
// Each concern is a package: a pure part that decides, and below it a controller
// that gathers what the decision is made from and carries it out.
//
//	missed    the pods that the webhook missed
//	probe     what a dial of a pod means; probe/dial dials
//	serving   who serves what: condition Serving, stale workloads
//	wake      which pods' kubelets are woken, so that files change at once
//	restart   which stale workloads are restarted, when, and why not
//	failing   which pods fail after the webhook gave them something: condition PodsHealthy
//	report    ConfigMap servingcert-serving-status: all of them, for other processes
//
// They share the facts of pods (package pods) and the caches (package cluster). A
// rotation passes through them in this order: serving sees in a Service's condition
// Ready that a Secret holds a new certificate; wake makes the kubelets update the
// files of the pods that mount it; serving has these pods dialled by probe, and finds those stale that still serve an older one after the propagation
// time; restart restarts those that ask for it; report says what is left.
//
// Nothing here reads a Secret.
package rotator
