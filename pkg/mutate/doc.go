// Package mutate injects serving certificates into pods.
//
// Its core is pure and reads in three steps, none of which talks to a cluster:
//
//	request, err := api.ParsePod(&pod.ObjectMeta) // what the pod asks for
//	choice := Choose(pod, request, known)         // which Secret, and by what
//	patch, report := Inject(pod, request, choice) // RFC 6902 operations, and why
//
// [Mutate] is the three together. What is done and left undone, and for which
// reasons, stands in rules.go, in one list that docs/injection.md shows. Every
// decision is made from the pod's spec: the label and the annotation that are
// written on it are for people, and a copied pod carries stale ones.
//
// Around the core lies the admission shell: [Handler] answers reviews and
// [Lookup] knows the Services and Secrets of a namespace. Neither writes.
package mutate
