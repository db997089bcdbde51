// Package facts caches facts that are derived from the objects of a cluster, in place of the objects.
//
// An [Informer] derives facts from each object when it arrives, and drops the object. So a Secret's
// private key and most of a pod are kept only while they are read.
//
// [Seen] is the resource version up to which a cache has followed its watch. Controllers wait for their
// own writes with it, so that they do not write twice. [PodCertificates] queries the API server's
// resources.
package facts
