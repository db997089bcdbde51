// Package preview shows what the webhook would do to manifests, without a
// cluster: to Pods and to everything that has a pod template. It is pure; what a
// cluster knows beyond the manifests comes in as a function value.
//
// The decision is that of [mutate.Mutate], the same function as the webhook's.
package preview
