// Package mutate decides what is injected into pods. It is pure: package admission, below
// it, is the webhook.
//
// A decision has three steps:
//
//	request, err := api.ParsePod(&pod.ObjectMeta)   // what the pod requests
//	choice := choose.Secret(pod, request, known)    // which Secret it gets, and why
//	patch, report := Inject(pod, request, choice)   // the patch, and what was skipped and why
//
// [Mutate] does all three. For each selected container (containers.go), Inject finds the recipe of its
// program (recipe.go), decides which missing parts of it are safe to add (offer.go, ports.go), and
// adds files, environment and flags (inject.go); then it makes probes use HTTPS (probes.go). The
// packages below handle command lines, programs, volumes, calls without TLS, the proxy and patches.
// Package reasons lists and explains every reason, as in docs/injection.md.
//
// Every decision is based on the pod's spec. The label and the annotation that the webhook
// writes on a pod are never read here: a copied pod has those of the original.
package mutate
