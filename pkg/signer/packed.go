package signer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fxamacker/cbor/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/pki"
)

// PackedSecret is SecretFacts in a quarter of the memory, without a pointer that a garbage
// collection would have to follow but to the verification, which all copies share.
type PackedSecret struct {
	facts    string // packedFacts in CBOR
	verified *atomic.Pointer[verification]
}

// packedFacts is what of SecretFacts does not follow from the rest.
type packedFacts struct {
	_ struct{} `cbor:",toarray"`

	Namespace, Name, UID, Version string
	Deleted                       int64 // seconds since the epoch; 0: it is not being deleted
	Annotations                   map[string]string
	Owners                        []packedOwner
	Finalizers                    []string
	MoreFinalizers                int
	Labelled, Immutable, Empty    bool
	Type                          string
	Other                         map[string][sha256.Size]byte
	Combined                      [sha256.Size]byte
	Defect, Detail                string
	Leaf                          *packedLeaf
}

type packedOwner struct {
	_ struct{} `cbor:",toarray"`

	APIVersion, Kind, Name, UID string
	Controller, Block           *bool
}

type packedLeaf struct {
	_ struct{} `cbor:",toarray"`

	Sum, Chain          [sha256.Size]byte
	DNSNames            []string
	IPs                 []netip.Addr
	KeyAlgorithm        string
	NotBefore, NotAfter int64
	Usages              string
	SelfIssued          bool
}

// Pack returns the facts as a cache keeps them. They have no other metadata than FactsOf
// returns.
func (f *SecretFacts) Pack() PackedSecret {
	p := packedFacts{
		Namespace: f.Namespace, Name: f.Name, UID: string(f.UID), Version: f.ResourceVersion,
		Annotations: f.Annotations, Finalizers: f.Finalizers, MoreFinalizers: f.moreFinalizers,
		Labelled: f.Labelled, Immutable: f.Immutable, Empty: f.Empty, Type: string(f.Type),
		Other: f.Other, Combined: f.Combined, Defect: string(f.Defect), Detail: f.Detail,
	}
	if f.DeletionTimestamp != nil {
		p.Deleted = f.DeletionTimestamp.Unix()
	}
	for _, r := range f.OwnerReferences {
		p.Owners = append(p.Owners, packedOwner{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID), Controller: r.Controller, Block: r.BlockOwnerDeletion})
	}
	if f.Leaf.Exists() {
		p.Leaf = f.Leaf.pack()
	}
	encoded, err := cbor.Marshal(&p)
	if err != nil {
		panic(err) // no value of these types fails
	}
	return PackedSecret{string(encoded), f.verified}
}

func (l *LeafFacts) pack() *packedLeaf {
	p := &packedLeaf{
		Sum: l.Sum, Chain: l.Chain, DNSNames: l.DNSNames, IPs: l.IPs, KeyAlgorithm: string(l.KeyAlgorithm),
		NotBefore: l.NotBefore.Unix(), NotAfter: l.NotAfter.Unix(), SelfIssued: l.SelfIssued,
	}
	if l.Usages != nil {
		p.Usages = l.Usages.Error()
	}
	return p
}

// Unpack returns the facts. A change of the copy changes nothing that is kept, except what is
// found out of who signed the leaf.
func (s PackedSecret) Unpack() *SecretFacts {
	var p packedFacts
	if err := cbor.Unmarshal([]byte(s.facts), &p); err != nil {
		panic(err) // Pack wrote it
	}
	f := &SecretFacts{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID), ResourceVersion: p.Version, Annotations: p.Annotations, Finalizers: p.Finalizers},
		Labelled:   p.Labelled, Immutable: p.Immutable, Empty: p.Empty, Type: corev1.SecretType(p.Type),
		Other: p.Other, Combined: p.Combined, Defect: Reason(p.Defect), Detail: p.Detail,
		moreFinalizers: p.MoreFinalizers, verified: s.verified,
	}
	if p.Deleted != 0 {
		f.DeletionTimestamp = new(metav1.Unix(p.Deleted, 0))
	}
	for _, o := range p.Owners {
		f.OwnerReferences = append(f.OwnerReferences, metav1.OwnerReference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: types.UID(o.UID), Controller: o.Controller, BlockOwnerDeletion: o.Block})
	}
	if p.Leaf != nil {
		f.Leaf = p.Leaf.unpack()
	}
	return f
}

func (p *packedLeaf) unpack() LeafFacts {
	l := LeafFacts{
		Sum: p.Sum, Fingerprint: hex.EncodeToString(p.Sum[:]), Chain: p.Chain, DNSNames: p.DNSNames, IPs: p.IPs,
		KeyAlgorithm: pki.KeyAlgorithm(p.KeyAlgorithm), NotBefore: time.Unix(p.NotBefore, 0).UTC(), NotAfter: time.Unix(p.NotAfter, 0).UTC(),
		SelfIssued: p.SelfIssued,
	}
	l.IssuedAt, l.RenewAt = l.NotBefore.Add(pki.Backdate), pki.RenewAtOf(p.Sum, l.NotBefore, l.NotAfter)
	if p.Usages != "" {
		l.Usages = errors.New(p.Usages)
	}
	return l
}
