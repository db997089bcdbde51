// Package cluster has what the controllers of the rotator share: the cache of pods ([Pods]), the
// cache of Services and Namespaces, caches of single ConfigMaps, the clock and the registry of
// metrics ([Cluster]), and a source that enqueues on request ([Trigger]).
//
// The caches are the rotator's own, because they omit fields that other code in the process may
// need.
package cluster
