// Package mutate decides what is injected into pods. It is pure: package admission, below
// it, is the webhook.
//
// A decision has three steps:
//
//	request, err := api.ParsePod(&pod.ObjectMeta) // what the pod asks for
//	choice := Choose(pod, request, known)         // which Secret it gets, and why
//	patch, report := Inject(pod, request, choice) // the patch, and what was skipped and why
//
// [Mutate] does all three. rules.go lists every reason and what it means to people, as
// docs/injection.md shows it. The checks that lead to a reason are in checks.go, if they
// are about a pod or a container, in choose.go and prefer.go, if they are about Services, and in
// containers.go and probes.go.
//
// Every decision is based on the pod's spec. The label and the annotation that the webhook
// writes on a pod are never read here: a copied pod has those of another.
package mutate
