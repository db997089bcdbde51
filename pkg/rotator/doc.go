// Package rotator brings rotated certificates to the pods: it finds out which certificates pods
// serve, and acts on old ones. It only wires its parts together ([Setup]).
//
// Each concern is a package with a pure part that decides. Its package controller gathers the input
// of the decision and carries it out.
//
//	uninjected   the pods that the webhook missed
//	kubeletsync  which pods' kubelets are woken, so that they update files at once
//	probe        the answers of pods that are dialled; probe/dial dials them
//	serving      which pods serve which certificate: condition Serving, stale workloads
//	restart      which stale workloads are restarted, when, and why the others are not
//	failing      which pods fail after an injection: condition PodsHealthy
//
// They share the facts of pods (package pods) and the caches (package cluster). A rotation passes
// through them in this order. serving sees in a Service's condition Ready that a Secret has a new
// certificate. kubeletsync makes the kubelets update the files of the pods that mount it. serving
// has these pods dialled by probe; those that still serve an older certificate after the
// propagation time are stale. restart restarts those that request it.
//
// Nothing here reads a Secret.
package rotator
