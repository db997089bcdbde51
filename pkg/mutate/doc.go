// Package mutate decides what is injected into pods. It is pure: package admission, below
// it, is the webhook.
//
// A decision has three steps:
//
//	request, err := api.ParsePod(&pod.ObjectMeta)   // what the pod asks for
//	choice := choose.Secret(pod, request, known)    // which Secret it gets, and why
//	patch, report := Inject(pod, request, choice)   // the patch, and what was skipped and why
//
// [Mutate] does all three. For each container that is selected (containers.go), Inject finds a recipe
// by its program (recipe.go), offers what of it is missing and does no harm (offer.go, ports.go), and
// adds files, environment and flags (inject.go); then it makes probes use HTTPS (probes.go). What all
// this needs to know of something else is in a package below: command lines, programs, volumes, calls
// without TLS, the proxy, patches. Package rules lists every reason and what it means to people, as
// docs/injection.md shows it.
//
// Every decision is based on the pod's spec. The label and the annotation that the webhook
// writes on a pod are never read here: a copied pod has those of another.
package mutate
