package signer

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// SecretFacts is all that is remembered of a Secret: what follows from its
// bytes, and not the bytes. Above all not the private key, which is needed to see
// whether it matches the certificate, and is read again only where it has to be
// written under a second key.
//
// It is a runtime.Object so that an informer can hold it in a Secret's place.
type SecretFacts struct {
	metav1.TypeMeta
	// ObjectMeta has what identityOf returns, those of secretAnnotations that are there,
	// and of a Secret that is being deleted the first finalizers; nothing else.
	metav1.ObjectMeta

	Labelled  bool // our instance's label is on it
	Type      corev1.SecretType
	Immutable bool
	Empty     bool              // no data under tls.crt and tls.key
	Other     []string          // other keys with data, sorted, at most maxOther+1
	Formats   formats.Set       // those that hold the pair, if it is usable
	Roots     [sha256.Size]byte // as formats.RootsDigest
	Defect    Reason            // why the two keys are not a usable pair, or empty
	Detail    string            // the defect in a sentence, without key material
	OtherForm bool              // the Defect is only that the key is in another form of PEM than PKCS #8
	Leaf      LeafFacts

	moreFinalizers int // beside ObjectMeta.Finalizers
	// verified is shared by all copies of the facts. Nil: there is no leaf.
	verified *atomic.Pointer[verification]
}

// LeafFacts is what is remembered of a leaf. Zero where there is none that can
// be read.
type LeafFacts struct {
	Sum          [sha256.Size]byte // of its DER
	Fingerprint  string            // as pki.Fingerprint
	DNSNames     []string
	IPs          []netip.Addr
	KeyAlgorithm pki.KeyAlgorithm
	NotBefore    time.Time
	NotAfter     time.Time
	IssuedAt     time.Time
	RenewAt      time.Time
	Usages       error    // why the extensions are not those of a serving certificate
	Chain        [32]byte // digest of what is served after the leaf, as chainDigest
	SelfIssued   bool     // it names itself as its issuer
}

// Exists reports whether there is a leaf that can be read.
func (l *LeafFacts) Exists() bool { return l.Fingerprint != "" }

// FactsOf derives the facts of a Secret for the signer of the given instance.
func FactsOf(secret *corev1.Secret, instance string) *SecretFacts {
	f := factsBesidePair(secret, instance)
	pair := pairIn(secret, f.password())
	f.readPair(pair.Cert, pair.Key)
	if f.Defect == "" {
		f.Formats = formats.HeldIn(secret.Data, pair, f.Annotations[api.AnnotationKeystoreDigest])
	}
	return f
}

// pairIn returns what the Secret has under the keys of the pair, and the password for files of it.
func pairIn(secret *corev1.Secret, password string) formats.Pair {
	return formats.Pair{Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey], Password: password}
}

// password is that of the Secret's files that have one, empty for formats.DefaultPassword.
func (f *SecretFacts) password() string {
	if f == nil {
		return ""
	}
	return f.Annotations[api.AnnotationKeystorePassword]
}

// factsBesidePair are the facts that do not need the pair to be read.
func factsBesidePair(secret *corev1.Secret, instance string) *SecretFacts {
	f := &SecretFacts{
		ObjectMeta: identityOf(&secret.ObjectMeta),
		Labelled:   secret.Labels[api.LabelManagedBy] == instance,
		Type:       corev1.SecretType(api.Shorten(string(secret.Type), maxType)),
		Immutable:  secret.Immutable != nil && *secret.Immutable,
	}
	f.Annotations = only(secret.Annotations, secretAnnotations)
	f.rememberFinalizers(secret.Finalizers)
	for key := range secret.Data {
		if len(f.Other) > maxOther {
			break // whatever else there is, all of it goes
		}
		if !isPair(key) {
			f.Other = append(f.Other, key)
		}
	}
	slices.Sort(f.Other)
	f.Roots = formats.RootsDigest(secret.Data)
	return f
}

// maxType is the most characters of a Secret's type that are remembered. All that matters is
// whether it is corev1.SecretTypeTLS.
const maxType = 253

// maxOther is how much data under other keys than those of the pair is removed key by key. A
// Secret with more is replaced.
const maxOther = 64

// replacedWhole reports whether what the Secret holds cannot be changed in place.
func (f *SecretFacts) replacedWhole() bool { return f.Immutable || len(f.Other) > maxOther }

// identityOf returns what is remembered of a Secret's metadata.
func identityOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := api.Identity(m)
	kept.OwnerReferences = api.Owners(m.OwnerReferences)
	return kept
}

// formats returns those of which the Secret has any file, whatever it holds.
func (f *SecretFacts) formats() formats.Set { return formats.WithAny(f.Other) }

func isPair(key string) bool { return key == corev1.TLSCertKey || key == corev1.TLSPrivateKeyKey }

func (f *SecretFacts) readPair(certPEM, keyPEM []byte) {
	f.Empty = len(certPEM) == 0 && len(keyPEM) == 0
	if len(certPEM) == 0 {
		f.Defect, f.Detail = reasonKeyMissing, "no data under "+corev1.TLSCertKey
		return
	}
	certs, err := pki.ParseCertificates(certPEM)
	if err != nil {
		f.Defect, f.Detail = reasonGarbage, api.Shorten(corev1.TLSCertKey+": "+err.Error(), maxForeignText)
		return
	}
	if n := max(len(certs[0].DNSNames), len(certs[0].IPAddresses)); n > api.MaxNames {
		f.Defect, f.Detail = reasonGarbage, fmt.Sprintf("%s: %d names: must be at most %d", corev1.TLSCertKey, n, api.MaxNames)
		return
	}
	f.Leaf = leafFacts(certs[0], certs[1:])
	f.verified = &atomic.Pointer[verification]{}
	f.verified.Store(&verification{raw: certs[0].Raw})
	if len(keyPEM) == 0 {
		f.Defect, f.Detail = reasonKeyMissing, "no data under "+corev1.TLSPrivateKeyKey
		return
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		f.Defect, f.Detail = reasonGarbage, api.Shorten(corev1.TLSPrivateKeyKey+": "+err.Error(), maxForeignText)
		if errors.Is(err, pki.ErrNotPKCS8) {
			foreign, err := pki.ParseForeignKey(keyPEM)
			f.OtherForm = err == nil && pki.KeyMatches(certs[0], foreign)
		}
		return
	}
	if !pki.KeyMatches(certs[0], key) {
		f.Defect, f.Detail = reasonMismatch, corev1.TLSPrivateKeyKey+" does not match the certificate"
	}
}

// parseKey reads a key that may be one of ours. Who watches all Secrets waits for it.
func parseKey(keyPEM []byte) (crypto.Signer, error) {
	if err := pki.CheckIssuable(keyPEM); err != nil {
		return nil, err
	}
	return pki.ParseKey(keyPEM)
}

func leafFacts(leaf *x509.Certificate, chain []*x509.Certificate) LeafFacts {
	algorithm, _ := pki.AlgorithmOf(leaf.PublicKey)
	sum := sha256.Sum256(leaf.Raw)
	names, ips := pki.NamesOf(leaf)
	return LeafFacts{
		Sum:          sum,
		Fingerprint:  hex.EncodeToString(sum[:]),
		DNSNames:     names,
		IPs:          ips,
		KeyAlgorithm: algorithm,
		NotBefore:    leaf.NotBefore,
		NotAfter:     leaf.NotAfter,
		IssuedAt:     pki.IssuedAt(leaf),
		RenewAt:      pki.RenewAtOf(sum, leaf.NotBefore, leaf.NotAfter),
		Usages:       pki.CheckUsages(leaf, algorithm),
		Chain:        chainDigest(chain),
		SelfIssued:   bytes.Equal(leaf.RawIssuer, leaf.RawSubject),
	}
}

// OwnedBy reports whether the Service with this UID is an owner.
func (f *SecretFacts) OwnedBy(uid types.UID) bool {
	return slices.ContainsFunc(f.OwnerReferences, func(r metav1.OwnerReference) bool {
		return isServiceReference(r) && r.UID == uid
	})
}

// ServiceOwners returns the owner references to Services.
func (f *SecretFacts) ServiceOwners() []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(f.OwnerReferences), func(r metav1.OwnerReference) bool { return !isServiceReference(r) })
}

// SameOwners reports whether both Secrets have the same owners.
func (f *SecretFacts) SameOwners(other *SecretFacts) bool {
	return sameOwners(f.OwnerReferences, other.OwnerReferences)
}

// renewedAfter is what api.AnnotationRenewedAfter records, zero if nothing.
func (f *SecretFacts) renewedAfter() time.Time {
	at, _ := time.Parse(time.RFC3339, f.Annotations[api.AnnotationRenewedAfter])
	return at
}

// DeepCopyObject makes SecretFacts a runtime.Object. Facts are never changed
// after they were derived, so that the copy may be the original.
func (f *SecretFacts) DeepCopyObject() runtime.Object { return f }

// chainDigest identifies the certificates that are served after a leaf.
func chainDigest(chain []*x509.Certificate) [32]byte {
	h := sha256.New()
	for _, c := range chain {
		h.Write(c.Raw)
	}
	return [32]byte(h.Sum(nil))
}

// usable reports whether a server can go on with what the Secret holds.
func (f *SecretFacts) usable(now time.Time) bool {
	return f != nil && !f.Empty && f.Defect == "" && now.Before(f.Leaf.NotAfter)
}

// isServiceReference reports whether an owner reference is of the kind that the
// signer writes.
func isServiceReference(r metav1.OwnerReference) bool {
	return r.APIVersion == "v1" && r.Kind == "Service"
}

// sameOwners compares what counts in order; the API server fills in the rest.
func sameOwners(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(a, b metav1.OwnerReference) bool {
		return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID
	})
}

// maxFinalizer is the most characters of a finalizer that are remembered: those of a
// qualified name.
const maxFinalizer = 253 + 1 + 63

// rememberFinalizers remembers what holds a Secret that is being deleted, the first
// maxNamesShown.
func (f *SecretFacts) rememberFinalizers(finalizers []string) {
	if f.DeletionTimestamp == nil {
		return
	}
	shown := min(len(finalizers), maxNamesShown)
	for _, name := range finalizers[:shown] {
		f.Finalizers = append(f.Finalizers, api.Shorten(name, maxFinalizer))
	}
	f.moreFinalizers = len(finalizers) - shown
}
