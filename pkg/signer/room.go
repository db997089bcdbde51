package signer

import "github.com/servingcert/servingcert/pkg/api"

// Size returns how many bytes a cache needs for the facts, with its indices.
func (f *SecretFacts) Size() int64 {
	const object, owner = 384, 128
	n := object + owner*len(f.OwnerReferences) + len(f.Pack().facts)
	if f.verified != nil {
		n += len(f.verified.Load().raw)
	}
	return int64(n)
}

// Reduce returns what is kept of facts for which there is no room: which Secret it is, and how
// long its certificate lives.
func (f *SecretFacts) Reduce() *SecretFacts {
	return &SecretFacts{
		ObjectMeta: api.Identity(&f.ObjectMeta), Labelled: f.Labelled, Empty: f.Empty, Defect: f.Defect, Reduced: true,
		Leaf: LeafFacts{Sum: f.Leaf.Sum, Fingerprint: f.Leaf.Fingerprint, NotBefore: f.Leaf.NotBefore, NotAfter: f.Leaf.NotAfter, IssuedAt: f.Leaf.IssuedAt, RenewAt: f.Leaf.RenewAt},
	}
}
