// Package preview computes the webhook's changes to the pods and pod templates in
// manifests, without a cluster. It is pure: a function value reads the state of a cluster.
//
// The webhook and this package call the same function, [mutate.Mutate].
package preview
