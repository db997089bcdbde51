// Package pods derives and stores the facts of a pod that the rotator needs ([FactsOf]).
//
// A cluster has many pods. Each has its identity, and a reference to the facts that all pods of its
// template share ([Template]): their labels, the Secrets whose key they mount, their ports, their
// [Workload], and the requests in their annotations. All decisions about a pod follow from these
// facts.
package pods
