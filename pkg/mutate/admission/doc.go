// Package admission is the webhook: it answers the AdmissionReviews of pods that are
// created, with what package mutate decides.
//
// A review is decided from informers. If they cannot decide it, because a Service may have
// been created that they have not seen, it waits for a read from the API server, which the
// reviews of a namespace share. The webhook writes no objects.
//
// setup.go wires it, handler.go answers, wire.go reads and writes reviews, lookup.go and
// sharedread.go find what is in a namespace.
package admission
