package signer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// PackedSecret is SecretFacts in a quarter of the memory, without a pointer that a garbage
// collection would have to follow but to the verification, which all copies share.
type PackedSecret struct {
	facts    string // what does not follow from the rest, one field after another
	verified *atomic.Pointer[verification]
}

// Pack returns the facts as a cache keeps them. They have no other metadata than FactsOf
// returns.
func (f *SecretFacts) Pack() PackedSecret {
	p := make(packer, 0, 512)
	p.texts(f.Namespace, f.Name, string(f.UID), f.ResourceVersion, string(f.Type), string(f.Defect), f.Detail)
	p.flags(f.Labelled, f.Immutable, f.Empty, f.DeletionTimestamp != nil, f.Leaf.Exists(), f.Reduced)
	if f.DeletionTimestamp != nil {
		p.number(f.DeletionTimestamp.Unix())
	}
	p.number(int64(len(f.Annotations)))
	for key, value := range f.Annotations {
		p.texts(key, value)
	}
	p.number(int64(len(f.OwnerReferences)))
	for _, r := range f.OwnerReferences {
		p.texts(r.APIVersion, r.Kind, r.Name, string(r.UID))
		p.flags(r.Controller != nil, r.Controller != nil && *r.Controller, r.BlockOwnerDeletion != nil, r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion)
	}
	p.list(f.Finalizers)
	p.number(int64(f.moreFinalizers))
	p.list(f.Other)
	p.number(int64(f.Formats))
	p.texts(string(f.Pair[:]))
	if f.Leaf.Exists() {
		p.leaf(&f.Leaf)
	}
	return PackedSecret{string(p), f.verified}
}

func (p *packer) leaf(l *LeafFacts) {
	usages := ""
	if l.Usages != nil {
		usages = l.Usages.Error()
	}
	p.texts(string(l.Sum[:]), string(l.Chain[:]), string(l.KeyAlgorithm), usages)
	p.flags(l.SelfIssued)
	p.number(l.NotBefore.Unix())
	p.number(l.NotAfter.Unix())
	p.list(l.DNSNames)
	p.number(int64(len(l.IPs)))
	for _, ip := range l.IPs {
		p.texts(string(ip.AsSlice()))
	}
}

// Unpack returns the facts. A change of the copy changes nothing that is kept, except what is
// found out of who signed the leaf. Strings but the name share what is packed.
func (s PackedSecret) Unpack() *SecretFacts {
	u := unpacker{s.facts}
	f := &SecretFacts{verified: s.verified}
	// Queues keep the name for longer than anybody keeps the facts.
	f.Namespace, f.Name = strings.Clone(u.text()), strings.Clone(u.text())
	f.UID, f.ResourceVersion = types.UID(u.text()), u.text()
	f.Type, f.Defect, f.Detail = corev1.SecretType(u.text()), Reason(u.text()), u.text()
	flags := u.flags()
	f.Labelled, f.Immutable, f.Empty, f.Reduced = flags(0), flags(1), flags(2), flags(5)
	if flags(3) {
		f.DeletionTimestamp = new(metav1.Unix(u.number(), 0))
	}
	for range u.number() {
		key := u.text()
		f.Annotations = with(f.Annotations, key, u.text())
	}
	if n := u.number(); n > 0 {
		f.OwnerReferences = make([]metav1.OwnerReference, n)
		for i := range f.OwnerReferences {
			f.OwnerReferences[i] = u.owner()
		}
	}
	f.Finalizers, f.moreFinalizers = u.list(), int(u.number())
	f.Other, f.Formats, f.Pair = u.list(), formats.Set(u.number()), u.digest()
	if flags(4) {
		f.Leaf = u.leaf()
	}
	return f
}

func (u *unpacker) owner() metav1.OwnerReference {
	r := metav1.OwnerReference{APIVersion: u.text(), Kind: u.text(), Name: u.text(), UID: types.UID(u.text())}
	flags := u.flags()
	if flags(0) {
		r.Controller = new(flags(1))
	}
	if flags(2) {
		r.BlockOwnerDeletion = new(flags(3))
	}
	return r
}

func (u *unpacker) leaf() LeafFacts {
	l := LeafFacts{Sum: u.digest(), Chain: u.digest(), KeyAlgorithm: pki.KeyAlgorithm(u.text())}
	if usages := u.text(); usages != "" {
		l.Usages = errors.New(usages)
	}
	l.SelfIssued = u.flags()(0)
	l.NotBefore, l.NotAfter = time.Unix(u.number(), 0).UTC(), time.Unix(u.number(), 0).UTC()
	l.DNSNames = u.list()
	for range u.number() {
		ip, _ := netip.AddrFromSlice([]byte(u.text())) // leaf wrote it
		l.IPs = append(l.IPs, ip)
	}
	l.Fingerprint = hex.EncodeToString(l.Sum[:])
	l.IssuedAt, l.RenewAt = l.NotBefore.Add(pki.Backdate), pki.RenewAtOf(l.Sum, l.NotBefore, l.NotAfter)
	return l
}

// packer writes values one after another: numbers as varints, and texts with their length
// before them.
type packer []byte

func (p *packer) number(n int64) { *p = binary.AppendVarint(*p, n) }

func (p *packer) texts(texts ...string) {
	for _, t := range texts {
		p.number(int64(len(t)))
		*p = append(*p, t...)
	}
}

func (p *packer) list(texts []string) {
	p.number(int64(len(texts)))
	p.texts(texts...)
}

// flags writes up to eight flags.
func (p *packer) flags(flags ...bool) {
	var bits byte
	for i, set := range flags {
		if set {
			bits |= 1 << i
		}
	}
	*p = append(*p, bits)
}

// unpacker reads what a packer of this process wrote.
type unpacker struct{ rest string }

func (u *unpacker) number() int64 {
	n, size := binary.Varint([]byte(u.rest[:min(len(u.rest), binary.MaxVarintLen64)]))
	u.rest = u.rest[size:]
	return n
}

func (u *unpacker) text() string {
	n := u.number()
	text := u.rest[:n]
	u.rest = u.rest[n:]
	return text
}

func (u *unpacker) list() []string {
	n := u.number()
	if n == 0 {
		return nil
	}
	texts := make([]string, n)
	for i := range texts {
		texts[i] = u.text()
	}
	return texts
}

func (u *unpacker) digest() (d [sha256.Size]byte) {
	copy(d[:], u.text())
	return d
}

func (u *unpacker) flags() func(i int) bool {
	bits := u.rest[0]
	u.rest = u.rest[1:]
	return func(i int) bool { return bits&(1<<i) != 0 }
}

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
