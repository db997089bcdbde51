// Package facts keeps what a process knows of the objects of a cluster: facts that
// follow from them, in place of the objects.
//
// An [Informer] derives facts from each object as it arrives and drops the object: a
// Secret's private key and most of a pod are thus never held longer than it takes to
// look at them.
//
// [Seen] is how far a cache has followed its watch: a write is awaited, so that nothing
// is written twice. [PodCertificates] asks the API server for a fact about itself.
package facts
