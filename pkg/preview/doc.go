// Package preview shows what the webhook would do to the pods and pod templates in
// manifests, without a cluster. It is pure: what a cluster knows beyond the manifests
// comes from a function value.
//
// The decision is that of [mutate.Mutate], the same function as the webhook's.
package preview
