// Package uninjected finds the pods that the webhook missed.
//
// A pod is injected while it is created, or never. One that was created before its
// namespace was labelled or its Service annotated, or while the webhook was away,
// runs without the Secret that it would get today, until it is replaced. Nothing
// here replaces it: it is counted by namespace in metric servingcert_missed_pods,
// and an event on its workload says what to do.
//
// The webhook warns whoever creates a pod of what it did in another way than might be
// expected, and writes that on the pod. Of pods that a controller made nobody reads
// either, so an event on their workload repeats it, once for each workload and text.
//
// The unit of work is a namespace ([Situation], [Decide], [Decision]). [Judge] says
// of one pod whether it is missed, and why or why not. Which Secret a pod would get
// is the webhook's decision, which comes in as a function value ([Choose]), so that
// the two cannot differ.
//
// The package is pure; its controller is in package missed/controller.
package uninjected
