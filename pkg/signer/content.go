package signer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// Content is the desired content of a managed Secret. It is created (Secret), or compared
// with the existing Secret (differs) and patched (Patch).
type Content struct {
	Labels      map[string]string
	Annotations annotations
	Owners      []metav1.OwnerReference
	// Data is the desired data. If it has no key pair, the existing pair is left unchanged.
	// Existing data under any other key is removed, unless it is a file of the Formats.
	Data map[string][]byte
	// Formats are the files beside the pair. The files made of an existing pair are not in
	// Data: see NeedsPair. Those made of the CA bundle's roots are.
	Formats formats.Set

	issued   *issue.Issued // nil: the existing pair stays
	rootsErr error         // why the files of the roots cannot be made
}

// contentOf returns the desired content of the Secret for the participants, with the issued
// pair or, if that is nil, with the existing one. All labels and annotations of the Secret
// are set here. [Decision.With] and [Content.WithPair] add the files that are made of the pair.
func contentOf(s Situation, d Decision, issued *issue.Issued) Content {
	c := Content{
		Labels:      map[string]string{api.LabelManagedBy: s.Instance},
		Annotations: annotations{},
		Owners:      d.owners,
		Data:        map[string][]byte{},
		Formats:     d.Asked.Formats,
		issued:      issued,
	}
	if issued == nil {
		c.Annotations[api.AnnotationIssuedLeaf] = s.Secret.Leaf.Fingerprint
	} else {
		c.Annotations[api.AnnotationIssuedLeaf] = pki.Fingerprint(issued.Leaf)
		c.Data[corev1.TLSCertKey] = issued.CertPEM
		c.Data[corev1.TLSPrivateKeyKey] = issued.KeyPEM
		if !issued.RenewedAfter.IsZero() {
			c.Annotations[api.AnnotationRenewedAfter] = issued.RenewedAfter.Format(time.RFC3339)
		}
	}
	if p := c.passwordOf(s, d); p != s.Secret.password() || p != "" {
		c.Annotations[api.AnnotationKeystorePassword] = p
	}
	if c.Formats&formats.Salted() == 0 {
		c.Annotations[api.AnnotationKeystoreDigest] = ""
	}
	if c.Formats&formats.OfRoots() != 0 {
		c.addRoots(s.Authority.Bundle)
	}
	if s.OpenShift {
		maps.Copy(c.Annotations, openShiftOnSecret(d.Participants, c.notAfter(s.Secret)))
	}
	return c
}

// addRoots adds the files made of the roots of the CA bundle. They do not depend on the pair.
func (c *Content) addRoots(bundle pki.Bundle) {
	var files map[string][]byte
	files, c.rootsErr = c.Formats.MakeRoots(bundle, c.password())
	maps.Copy(c.Data, files)
}

// changesRoots reports whether the files of the roots must be written.
func (c Content) changesRoots(f *SecretFacts) bool {
	return c.Formats&formats.OfRoots() != 0 && (c.issued != nil || formats.RootsDigest(c.Data) != f.Roots)
}

// notAfter returns when the leaf expires.
func (c Content) notAfter(secret *SecretFacts) time.Time {
	if c.issued != nil {
		return c.issued.Leaf.NotAfter
	}
	return secret.Leaf.NotAfter
}

// differs reports whether the Secret differs from the desired content.
func (c Content) differs(f *SecretFacts) bool {
	return !f.Labelled || !sameOwners(f.OwnerReferences, c.Owners) || len(c.changedKeys(f)) > 0 || len(c.Annotations.changes(f.Annotations)) > 0
}

// changedKeys returns the sorted keys of data to write or remove, other than the pair.
func (c Content) changedKeys(f *SecretFacts) []string {
	wanted := c.Formats.Files()
	keys := slices.DeleteFunc(slices.Clone(f.Other), func(key string) bool { return slices.Contains(wanted, key) })
	keys = append(keys, c.toMake(f).Files()...)
	if c.changesRoots(f) {
		keys = append(keys, (c.Formats & formats.OfRoots()).Files()...)
	}
	slices.Sort(keys)
	return keys
}

// toMake returns the formats of the pair whose files must be written: for an issued pair all, for
// an existing one those that the Secret does not hold.
func (c Content) toMake(f *SecretFacts) formats.Set {
	ofPair := c.Formats &^ formats.OfRoots()
	if c.issued != nil {
		return ofPair
	}
	held := f.Formats
	if f.password() != c.password() {
		held &^= formats.Encrypted()
	}
	return ofPair &^ held
}

// passwordOf returns the desired annotation with the password: empty for
// formats.DefaultPassword, and if no file has a password.
func (c Content) passwordOf(s Situation, d Decision) string {
	if c.Formats&formats.Encrypted() == 0 {
		return ""
	}
	p := d.Asked.Password
	if p == "" { // no Service has a valid one: that of the existing files
		p = s.Secret.password()
	}
	if p == formats.DefaultPassword || formats.CheckPassword(p) != "" {
		return ""
	}
	return p
}

// password returns the password of the formats.
func (c Content) password() string { return c.Annotations[api.AnnotationKeystorePassword] }

// NeedsPair reports whether the Secret must be read, and WithPair called, before the content is
// patched: files of a format must be made of the existing pair, which is not in the facts.
func (c Content) NeedsPair(f *SecretFacts) bool {
	return c.issued == nil && (c.toMake(f) != 0 || c.rootsErr != nil)
}

// WithPair returns the content with the files made of the pair in the Secret. Patch fails on
// any other version of the Secret than that of its facts, so the files always match the pair. The
// error is a format that cannot be made of the pair.
func (c Content) WithPair(secret *corev1.Secret) (Content, error) {
	return c.withFiles(pairIn(secret, c.password()))
}

// withFiles returns the content with the files of the pair.
func (c Content) withFiles(pair formats.Pair) (Content, error) {
	files, err := c.Formats.Make(pair)
	if err := cmp.Or(err, c.rootsErr); err != nil {
		return Content{}, err
	}
	c.Annotations = maps.Clone(c.Annotations)
	c.Annotations[api.AnnotationKeystoreDigest] = formats.SaltedDigest(files, pair)
	maps.Copy(files, c.Data)
	c.Data = files
	return c, nil
}

// Secret returns the Secret to create. It keeps the labels and annotations of others on the
// Secret that it replaces, which may be nil.
func (c Content) Secret(key types.NamespacedName, replaced *corev1.Secret) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: c.Labels, OwnerReferences: c.Owners},
		Type:       corev1.SecretTypeTLS,
		Data:       c.Data,
	}
	var have map[string]string
	if replaced != nil {
		secret.Labels = maps.Clone(replaced.Labels)
		for key, value := range c.Labels {
			metav1.SetMetaDataLabel(&secret.ObjectMeta, key, value)
		}
		have = replaced.Annotations
	}
	secret.Annotations = c.Annotations.over(have)
	return secret
}

// Patch returns a merge patch that changes the Secret to the content, and leaves users'
// labels, annotations and owners. It fails on any other version of the Secret than that of the
// facts. NeedsPair must be false.
func (c Content) Patch(f *SecretFacts) map[string]any {
	metadata := map[string]any{
		"uid":             f.UID,
		"resourceVersion": f.ResourceVersion,
		"labels":          c.Labels,
		"ownerReferences": c.Owners,
	}
	if changes := c.Annotations.changes(f.Annotations); len(changes) > 0 {
		metadata["annotations"] = changes
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
