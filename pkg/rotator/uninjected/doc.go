// Package uninjected finds the pods that the webhook missed.
//
// A pod is injected at its creation, or never. A pod that was created before its namespace was
// labelled or its Service annotated, or while the webhook was not available, runs without its
// Secret until it is replaced. Nothing here replaces it: it is counted by namespace in metric
// servingcert_missed_pods, and an event on its workload states what to do.
//
// To which Services and ports the proxy of a pod connects is decided at its creation too. A pod is
// counted, and its workload told, as long as a new one would connect otherwise, because a Service has
// changed.
//
// The webhook warns the creator of a pod of unexpected decisions, and notes them on the pod. If a
// controller created the pod, nobody reads either, so an event on the workload repeats the note,
// once for each workload and text.
//
// The unit of work is a namespace ([Situation], [Decide], [Decision]). [Evaluate] decides whether
// one pod was missed, and why or why not, and how its connections differ. The Secret of a pod, and its
// connections, are the webhook's decision, package mutate/choose, so that the two cannot differ.
//
// The package is pure; its controller is in package uninjected/controller.
package uninjected
