// Package rotator carries a rotation through to the pods: who of them serves
// what, and what to do about it.
//
// # Missed pods
//
// A pod is injected while it is created, or never. One that was created before
// its namespace was labelled or its Service annotated, or while the webhook was
// away, runs without the Secret that it would get today, until it is replaced.
// Nothing here replaces it: it is found, counted by namespace in metric
// servingcert_missed_pods, and an event on its workload says what to do.
//
// The unit of work is a namespace. Its reconcile gathers from caches, decides in
// pure functions, and acts:
//
//	FactsOf(pod)                  // what is remembered of a pod (facts.go)
//	Judge(facts, place, choose)   // is it missed, and why or why not (missed.go)
//	group, decide                 // whom to tell of it, once (decide.go)
//
// Which Secret a pod would get is the webhook's decision, which comes in as a
// function value ([Choose]), so that the two cannot differ.
//
// Pods are many: of each, what is held is who it is and a reference to what it
// has in common with the others of its template ([Template]).
package rotator
