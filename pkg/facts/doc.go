// Package facts keeps what a process knows of the objects of a cluster: facts that
// follow from them, in place of the objects, and what the process wrote itself.
//
// An [Informer] derives facts from each object as it arrives and drops the object.
// controller-runtime's caches hold an object or its metadata, and nothing derived
// from it; a Secret's private key and most of a pod are thus never held longer than
// it takes to look at them.
//
// [Written] remembers what this process wrote until its cache has seen it, so that
// nothing is written twice. [PodCertificates] asks the API server for a fact about itself.
package facts
