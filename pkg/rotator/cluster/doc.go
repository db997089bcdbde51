// Package cluster is what the controllers of the rotator share: the cache of pods
// ([Pods]), the cache of Services and Namespaces, caches of single ConfigMaps, the
// clock and the registry of metrics ([Cluster]), and a source that enqueues on
// request ([Trigger]).
//
// The caches are the rotator's own, so that what they leave out is not missing for
// anyone else in the process.
package cluster
