// Package pods holds what the rotator remembers of pods: [FactsOf] derives it.
//
// A cluster has many pods. What is kept of each is who it is, and a reference to
// what it has in common with the other pods of its template ([Template]): its
// labels, the Secrets whose key it mounts, its ports, its [Workload], and what its
// annotations ask for. All that is decided about a pod follows from these facts.
package pods
