package signer

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
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
	// any other key goes unless it is a file of the Formats.
	Data map[string][]byte
	// Formats are to be there beside the pair. The files of a pair that stays are not
	// in Data: see NeedsPair.
	Formats formats.Set

	issued *issue.Issued // nil: the pair stays
}

// contentOf returns what the Secret is to hold for the members of the decision: with
// the pair that was issued, or, if that is nil, with the pair that is there. It is the
// one place that says so: a new label or annotation of the Secret is a line here. Files that
// are made of the pair are added by [Decision.With] and [Content.WithPair].
func contentOf(s Situation, d Decision, issued *issue.Issued) Content {
	c := Content{
		Labels:      map[string]string{api.LabelManagedBy: s.Instance},
		Annotations: map[string]string{},
		Owners:      d.owners,
		Data:        map[string][]byte{},
		Formats:     d.Asked.Formats,
		issued:      issued,
	}
	if issued != nil {
		c.Data[corev1.TLSCertKey] = issued.CertPEM
		c.Data[corev1.TLSPrivateKeyKey] = issued.KeyPEM
		if !issued.RenewedAfter.IsZero() {
			c.Annotations[api.AnnotationRenewedAfter] = issued.RenewedAfter.Format(time.RFC3339)
		}
	}
	if p := c.passwordOf(s, d); p != s.Secret.password() || p != "" {
		c.Annotations[api.AnnotationKeystorePassword] = p
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
	wanted := c.Formats.Files()
	keys := slices.DeleteFunc(slices.Clone(f.Other), func(key string) bool { return slices.Contains(wanted, key) })
	keys = append(keys, c.toMake(f).Files()...)
	slices.Sort(keys)
	return keys
}

// toMake returns the formats of which the files have to be written: of a pair that was issued
// all, of one that stays those that the Secret does not hold.
func (c Content) toMake(f *SecretFacts) formats.Set {
	if c.issued != nil {
		return c.Formats
	}
	held := f.Formats
	if f.password() != c.password() {
		held &^= formats.Encrypted()
	}
	return c.Formats &^ held
}

// passwordOf returns what the annotation with the password is to be: empty for
// formats.DefaultPassword, and where no file has one.
func (c Content) passwordOf(s Situation, d Decision) string {
	if c.Formats&formats.Encrypted() == 0 {
		return ""
	}
	p := d.Asked.Password
	if p == "" { // nobody says it validly: what the files have
		p = s.Secret.password()
	}
	if p == formats.DefaultPassword || formats.CheckPassword(p) != "" {
		return ""
	}
	return p
}

// password is that of the formats.
func (c Content) password() string { return c.Annotations[api.AnnotationKeystorePassword] }

// NeedsPair reports whether the content can be written over the Secret only after
// WithPair: files of a format have to change, and the pair stays. Its bytes are in the
// Secret and not in the facts.
func (c Content) NeedsPair(f *SecretFacts) bool { return c.issued == nil && c.toMake(f) != 0 }

// WithPair returns the content with what follows from the pair in the Secret. Patch
// fails on any other version of the Secret than that of its facts, so the result is
// written beside this pair or not at all. The error is a format that cannot be made of the pair.
func (c Content) WithPair(secret *corev1.Secret) (Content, error) {
	files, err := c.Formats.Make(pairIn(secret, c.password()))
	if err != nil {
		return Content{}, err
	}
	maps.Copy(files, c.Data)
	c.Data = files
	return c, nil
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
	f := &SecretFacts{Labelled: true, Type: corev1.SecretTypeTLS, Other: c.Formats.Files(), Formats: c.Formats}
	var annotations map[string]string
	if before != nil {
		annotations = before.Annotations
	}
	f.Annotations = withAnnotations(annotations, c.Annotations)
	if c.issued == nil {
		f.Immutable, f.Leaf, f.Pair = before.Immutable, before.Leaf, before.Pair
		f.Empty, f.Defect, f.Detail = before.Empty, before.Defect, before.Detail
		f.verified = before.verified
		return f
	}
	f.Leaf, f.Pair = leafFacts(c.issued.Leaf, ca.Chain), pairDigest(c.issued.Pair(""))
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

// secretAnnotations are the keys of all annotations that contentOf may return, and so
// those that are remembered of a Secret.
var secretAnnotations = append([]string{api.AnnotationRenewedAfter, api.AnnotationKeystorePassword}, openShiftSecretKeys...)

// changedAnnotations returns what has to be written of annotations to make them the
// wanted ones: nil for one that has to be removed.
func changedAnnotations(have, want map[string]string) map[string]any {
	var changed map[string]any
	for key, value := range want {
		if old, there := have[key]; old == value && there == (value != "") {
			continue
		}
		if changed == nil {
			changed = map[string]any{}
		}
		if changed[key] = value; value == "" {
			changed[key] = nil
		}
	}
	return changed
}

// withAnnotations returns have with the wanted ones, nil if that leaves none.
func withAnnotations(have, want map[string]string) map[string]string {
	var out map[string]string
	for key, value := range have {
		if _, ours := want[key]; !ours {
			out = with(out, key, value)
		}
	}
	for key, value := range want {
		if value != "" {
			out = with(out, key, value)
		}
	}
	return out
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// only returns the annotations with the keys, nil if there are none.
func only(annotations map[string]string, keys []string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		if value, ok := annotations[key]; ok {
			out = with(out, key, api.TruncateAnnotation(key, value))
		}
	}
	return out
}
