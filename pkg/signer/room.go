package signer

import (
	"unsafe"

	"github.com/servingcert/servingcert/pkg/api"
)

// Size returns about how many bytes a cache needs for the facts, with its indices: never less,
// and not twice as many (TestSizeIsWhatFactsTake).
func (f *SecretFacts) Size() int64 {
	const (
		beside   = 512 // the verification, and what maps of the cache, and allocations, are rounded up by
		text     = 16  // rounding of one text
		element  = 16 + text
		emptyMap = 320
	)
	n := int(unsafe.Sizeof(*f)) + beside + len(f.Namespace) + 2*len(f.Name) + len(f.UID) + len(f.ResourceVersion) + len(f.Type) +
		len(f.Defect) + len(f.Detail) + len(f.Leaf.Fingerprint)
	if f.DeletionTimestamp != nil {
		n += int(unsafe.Sizeof(*f.DeletionTimestamp))
	}
	if len(f.Annotations) > 0 {
		n += emptyMap
	}
	for key, value := range f.Annotations {
		n += 2*text + len(key) + len(value)
	}
	for i := range f.OwnerReferences {
		r := &f.OwnerReferences[i]
		// Of a Service the UID is in an index, too.
		n += int(unsafe.Sizeof(*r)) + 5*text + len(r.APIVersion) + len(r.Kind) + len(r.Name) + 2*len(r.UID) + indexed
	}
	for _, texts := range [][]string{f.Finalizers, f.Other, f.Leaf.DNSNames} {
		for _, t := range texts {
			n += element + text + len(t)
		}
	}
	n += len(f.Leaf.IPs) * int(unsafe.Sizeof(f.Leaf.IPs[0]))
	if f.Leaf.Usages != nil {
		n += 4*text + len(f.Leaf.Usages.Error())
	}
	if f.verified != nil {
		n += len(f.verified.Load().raw)
	}
	return int64(n)
}

// indexed is the room of an owner in an index, with what its map is rounded up by.
const indexed = 96

// Reduce returns what is kept of facts for which there is no room: which Secret it is, and how
// long its certificate lives.
func (f *SecretFacts) Reduce() *SecretFacts {
	return &SecretFacts{
		ObjectMeta: api.Identity(&f.ObjectMeta), Labelled: f.Labelled, Empty: f.Empty, Defect: f.Defect, Reduced: true,
		Leaf: LeafFacts{Sum: f.Leaf.Sum, Fingerprint: f.Leaf.Fingerprint, NotBefore: f.Leaf.NotBefore, NotAfter: f.Leaf.NotAfter, IssuedAt: f.Leaf.IssuedAt, RenewAt: f.Leaf.RenewAt},
	}
}
