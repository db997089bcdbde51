// Package admission is the webhook: it answers the AdmissionReviews of pods that are
// created, with what package mutate decides.
//
// A review is decided from informers. If they cannot decide it, because a Service may have
// been created that they have not seen, it waits for a read from the API server, which the
// reviews of a namespace share. The webhook writes no objects.
//
// controller-runtime reads the reviews and writes the answers. setup.go wires it, handler.go
// answers, limits.go bounds what is read, reply.go makes HTTP errors of what is no answer,
// lookup.go and sharedread.go find what is in a namespace.
package admission
