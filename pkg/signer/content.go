package signer

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Content is what a Secret of ours is to hold. The same value is created (Secret),
// compared with what is there (differs), written over it (Patch) and remembered
// (Facts).
type Content struct {
	Labels map[string]string
	// Annotations that the signer answers for, "" for one that must not be there.
	// All others stay as they are.
	Annotations map[string]string
	Owners      []metav1.OwnerReference
	// Data that is to be there. A pair that is not in it stays as it is; data under
	// any other key that is not in it goes.
	Data map[string][]byte
	// Combined: the pair is to be there as one file too, under api.CombinedKey. Of a
	// pair that stays it is not in Data: see NeedsPair.
	Combined bool

	issued *Issued // nil: the pair stays
}

// contentOf returns what the Secret is to hold for the members of the decision: with
// the pair that was issued, or, if that is nil, with the pair that is there. It is the
// one place that says so: a new key, label or annotation of the Secret is a line here.
func contentOf(s Situation, d Decision, issued *Issued) Content {
	c := Content{
		Labels:      map[string]string{api.LabelManagedBy: s.Instance},
		Annotations: map[string]string{},
		Owners:      d.owners,
		Data:        map[string][]byte{},
		Combined:    d.Asked.Combined,
		issued:      issued,
	}
	if issued != nil {
		c.Data[corev1.TLSCertKey] = issued.CertPEM
		c.Data[corev1.TLSPrivateKeyKey] = issued.KeyPEM
		if c.Combined {
			c.Data[api.CombinedKey] = combined(issued.CertPEM, issued.KeyPEM)
		}
		if !issued.RenewedAfter.IsZero() {
			c.Annotations[api.AnnotationRenewedAfter] = issued.RenewedAfter.Format(time.RFC3339)
		}
	}
	if s.OpenShift {
		maps.Copy(c.Annotations, openShiftOnSecret(d.Members, c.notAfter(s.Secret)))
	}
	return c
}

// notAfter is when the leaf expires.
func (c Content) notAfter(secret *SecretFacts) time.Time {
	if c.issued != nil {
		return c.issued.Leaf.NotAfter
	}
	return secret.Leaf.NotAfter
}

// differs reports whether the Secret is to hold something that it does not.
func (c Content) differs(f *SecretFacts) bool {
	return !f.Labelled || !sameOwners(f.OwnerReferences, c.Owners) || len(c.changedKeys(f)) > 0 || len(changedAnnotations(f.Annotations, c.Annotations)) > 0
}

// changedKeys returns the keys of data beside the pair that has to be written or
// removed, sorted.
func (c Content) changedKeys(f *SecretFacts) []string {
	var keys []string
	want := c.other(f)
	for key := range f.Other {
		if _, wanted := want[key]; !wanted {
			keys = append(keys, key)
		}
	}
	for key, digest := range want {
		if have, there := f.Other[key]; !there || have != digest {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// other returns the digests of what is to be under the keys beside the pair, nil for
// none. before are the facts of the Secret with the pair that stays, nil if none does.
func (c Content) other(before *SecretFacts) map[string][sha256.Size]byte {
	var facts SecretFacts
	for key, value := range c.Data {
		facts.rememberOther(key, value)
	}
	if c.Combined && c.issued == nil {
		facts.remember(api.CombinedKey, before.Combined)
	}
	return facts.Other
}

// Secret returns the Secret to create. It keeps the labels and annotations that
// others put on the one that it replaces, which is nil if there is none.
func (c Content) Secret(key types.NamespacedName, replaced *corev1.Secret) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: c.Labels, OwnerReferences: c.Owners},
		Type:       corev1.SecretTypeTLS,
		Data:       c.Data,
	}
	annotations := c.Annotations
	if replaced != nil {
		secret.Labels = maps.Clone(replaced.Labels)
		for key, value := range c.Labels {
			metav1.SetMetaDataLabel(&secret.ObjectMeta, key, value)
		}
		annotations = replaced.Annotations
	}
	secret.Annotations = withAnnotations(annotations, c.Annotations)
	return secret
}

// Patch returns a merge patch that makes the Secret hold the content, and leaves
// all else as users made it. It fails on any other Secret than that of the facts. The
// content must not be one that NeedsPair.
func (c Content) Patch(f *SecretFacts) map[string]any {
	metadata := map[string]any{
		"uid":             f.UID,
		"resourceVersion": f.ResourceVersion,
		"labels":          c.Labels,
		"ownerReferences": c.Owners,
	}
	if annotations := changedAnnotations(f.Annotations, c.Annotations); len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	data := map[string]any{}
	for _, key := range c.changedKeys(f) {
		data[key] = nil // to be removed
	}
	for key, value := range c.Data {
		if _, changed := data[key]; changed || isPair(key) {
			data[key] = value
		}
	}
	patch := map[string]any{"metadata": metadata}
	if len(data) > 0 {
		patch["data"] = data
	}
	return patch
}

// Facts returns the facts that the Secret has when the content is written to it, but for its
// identity: before are the facts until then, nil if it is created, and ca is the CA that signed
// what was issued.
func (c Content) Facts(before *SecretFacts, ca *pki.Authority) *SecretFacts {
	f := &SecretFacts{Labelled: true, Type: corev1.SecretTypeTLS, Other: c.other(before)}
	var annotations map[string]string
	if before != nil {
		annotations = before.Annotations
	}
	f.Annotations = withAnnotations(annotations, c.Annotations)
	if c.issued == nil {
		f.Immutable, f.Leaf, f.Combined = before.Immutable, before.Leaf, before.Combined
		f.Empty, f.Defect, f.Detail = before.Empty, before.Defect, before.Detail
		f.TakeVerification(before)
		return f
	}
	f.Leaf, f.Combined = leafFacts(c.issued.Leaf, ca.Chain), combinedDigest(c.issued.CertPEM, c.issued.KeyPEM)
	f.verified = &atomic.Pointer[verification]{}
	f.verified.Store(&verification{by: ca, issuer: &ca.Issuer, chained: true, signer: ca.Certificate})
	return f
}

// WrittenAs returns the facts of Content.Facts with the identity that the API server answered
// with, as FactsOf returns them once the cache has seen the write.
func (f *SecretFacts) WrittenAs(answer *metav1.ObjectMeta) *SecretFacts {
	out := *f
	out.ObjectMeta = identityOf(answer)
	out.Annotations = f.Annotations
	return &out
}
