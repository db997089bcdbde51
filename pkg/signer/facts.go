package signer

import (
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

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// SecretFacts is the cached part of a Secret: the results of checks of its data, without the
// data. It does not contain the private key, which is only compared with the certificate, and
// read again if files must be made of it.
//
// It is a runtime.Object so that an informer can hold it in place of a Secret.
type SecretFacts struct {
	metav1.TypeMeta
	// ObjectMeta has the result of identityOf, the secretAnnotations, and for a Secret that is
	// being deleted the first finalizers.
	metav1.ObjectMeta

	Labelled  bool // it has our instance's label
	Type      corev1.SecretType
	Immutable bool
	Empty     bool              // no data under tls.crt and tls.key
	Other     []string          // other keys with data, sorted, at most maxOther+1
	Formats   formats.Set       // those that hold the pair, if it is usable
	Roots     [sha256.Size]byte // as formats.RootsDigest
	Defect    Reason            // why tls.crt and tls.key are not a usable pair, or empty
	Detail    string            // a message about the defect, without key material
	OtherForm bool              // the only Defect is that the key is not in PKCS #8
	Leaf      LeafFacts

	moreFinalizers int // number of finalizers that are not in ObjectMeta
	// verified is shared by all copies of the facts. Nil: there is no leaf.
	verified *atomic.Pointer[verification]
}

// LeafFacts is the cached part of a leaf. It is zero if there is no valid one.
type LeafFacts struct {
	Sum          [sha256.Size]byte // of its DER; set also for a leaf that Go cannot read
	Fingerprint  string            // as pki.Fingerprint
	DNSNames     []string
	IPs          []netip.Addr
	KeyAlgorithm pki.KeyAlgorithm
	NotBefore    time.Time
	NotAfter     time.Time
	IssuedAt     time.Time
	RenewAt      time.Time
	Usages       error    // why the extensions are not those of a serving certificate
	Chain        [32]byte // chainDigest of the chain after the leaf
	SelfIssued   bool     // its issuer is its subject
}

// Exists reports whether there is a valid leaf.
func (l *LeafFacts) Exists() bool { return l.Fingerprint != "" }

// FactsOf derives the facts of a Secret for the signer of the given instance.
func FactsOf(secret *corev1.Secret, instance string) *SecretFacts {
	f := factsBesidePair(secret, instance)
	pair := pairIn(secret, f.password())
	f.readPair(pair.Cert, pair.Key, ofTheSigner)
	if f.Defect == "" {
		f.Formats = formats.HeldIn(secret.Data, pair, f.Annotations[api.AnnotationKeystoreDigest])
	}
	return f
}

// pairIn returns the data of the Secret's pair, and the password for files made of it.
func pairIn(secret *corev1.Secret, password string) formats.Pair {
	return formats.Pair{Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey], Password: password}
}

// password returns the password of the Secret's files, empty for formats.DefaultPassword.
func (f *SecretFacts) password() string {
	if f == nil {
		return ""
	}
	return f.Annotations[api.AnnotationKeystorePassword]
}

// factsBesidePair returns the facts that do not depend on the pair.
func factsBesidePair(secret *corev1.Secret, instance string) *SecretFacts {
	f := &SecretFacts{
		ObjectMeta: identityOf(&secret.ObjectMeta),
		Labelled:   secret.Labels[api.LabelManagedBy] == instance,
		Type:       corev1.SecretType(api.Shorten(string(secret.Type), maxType)),
		Immutable:  secret.Immutable != nil && *secret.Immutable,
	}
	f.Annotations = api.KeepOnly(secret.Annotations, secretAnnotations)
	f.rememberFinalizers(secret.Finalizers)
	for key := range secret.Data {
		if len(f.Other) > maxOther {
			break // all of it will be removed
		}
		if !isPair(key) {
			f.Other = append(f.Other, key)
		}
	}
	slices.Sort(f.Other)
	f.Roots = formats.RootsDigest(secret.Data)
	return f
}

// maxType is the most characters of a Secret's type that are cached. They are only compared
// with corev1.SecretTypeTLS.
const maxType = 253

// maxOther is the most keys other than those of the pair that are removed one by one. A Secret
// with more is replaced.
const maxOther = 64

// replacedWhole reports whether the Secret's data cannot be changed in place.
func (f *SecretFacts) replacedWhole() bool { return f.Immutable || len(f.Other) > maxOther }

// identityOf returns the cached part of a Secret's metadata.
func identityOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := api.Identity(m)
	kept.OwnerReferences = api.Owners(m.OwnerReferences)
	return kept
}

// formats returns the formats for which the Secret has a file, even an invalid one.
func (f *SecretFacts) formats() formats.Set { return formats.WithAny(f.Other) }

func isPair(key string) bool { return key == corev1.TLSCertKey || key == corev1.TLSPrivateKeyKey }

// pairForm is which pairs are accepted.
type pairForm struct {
	maxNames int // in the certificate
	parseKey func(keyPEM []byte) (crypto.Signer, error)
}

var ofTheSigner = pairForm{maxNames: api.MaxNames, parseKey: parseKey}

// readPair derives the facts of the pair, and returns its certificates, nil if they are not valid.
func (f *SecretFacts) readPair(certPEM, keyPEM []byte, form pairForm) []*x509.Certificate {
	f.Empty = len(certPEM) == 0 && len(keyPEM) == 0
	if len(certPEM) == 0 {
		f.Defect, f.Detail = reasonKeyMissing, "no data under "+corev1.TLSCertKey
		return nil
	}
	certs, err := pki.ParseCertificates(certPEM)
	if err != nil {
		f.Defect, f.Detail = reasonGarbage, api.Shorten(corev1.TLSCertKey+": "+err.Error(), maxForeignText)
		f.setUnreadLeaf(certPEM)
		return nil
	}
	if n := max(len(certs[0].DNSNames), len(certs[0].IPAddresses)); n > form.maxNames {
		f.Defect, f.Detail = reasonGarbage, fmt.Sprintf("%s: %d names: must be at most %d", corev1.TLSCertKey, n, form.maxNames)
		f.setForeignLeaf(certs)
		return nil
	}
	f.setLeaf(certs)
	f.readKey(certs[0], keyPEM, form)
	return certs
}

func (f *SecretFacts) setLeaf(certs []*x509.Certificate) {
	f.Leaf = leafFacts(certs[0], certs[1:])
	f.verified = &atomic.Pointer[verification]{}
	f.verified.Store(&verification{raw: certs[0].Raw})
}

// setForeignLeaf sets the leaf of a certificate that is refused. If another issuer has signed it, its
// Secret is left as it is (OfAnotherIssuer). The names are of no use, and there may be thousands.
func (f *SecretFacts) setForeignLeaf(certs []*x509.Certificate) {
	f.setLeaf(certs)
	f.Leaf.DNSNames, f.Leaf.IPs = nil, nil
}

// setUnreadLeaf sets the leaf of a chain that cannot be read: as setForeignLeaf, or only its Sum, if it
// is a certificate that Go does not read, such as one of a key on a curve that it does not know.
func (f *SecretFacts) setUnreadLeaf(certPEM []byte) {
	der := pki.FirstCertificate(certPEM)
	if cert, err := x509.ParseCertificate(der); err == nil {
		f.setForeignLeaf([]*x509.Certificate{cert})
	} else if der != nil {
		f.Leaf.Sum = sha256.Sum256(der)
	}
}

func (f *SecretFacts) readKey(leaf *x509.Certificate, keyPEM []byte, form pairForm) {
	if len(keyPEM) == 0 {
		f.Defect, f.Detail = reasonKeyMissing, "no data under "+corev1.TLSPrivateKeyKey
		return
	}
	key, err := form.parseKey(keyPEM)
	if err != nil {
		f.Defect, f.Detail = reasonGarbage, api.Shorten(corev1.TLSPrivateKeyKey+": "+err.Error(), maxForeignText)
		if errors.Is(err, pki.ErrNotPKCS8) {
			foreign, err := pki.ParseForeignKey(keyPEM)
			f.OtherForm = err == nil && pki.KeyMatches(leaf, foreign)
		}
		return
	}
	if !pki.KeyMatches(leaf, key) {
		f.Defect, f.Detail = reasonMismatch, corev1.TLSPrivateKeyKey+" does not match the certificate"
	}
}

// parseKey parses a key if the signer could have issued it. It runs in the watch of all Secrets, so
// CheckIssuable bounds its cost.
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
		SelfIssued:   pki.SelfIssued(leaf),
	}
}

// renewedAfter returns the time in api.AnnotationRenewedAfter, or zero.
func (f *SecretFacts) renewedAfter() time.Time {
	at, _ := time.Parse(time.RFC3339, f.Annotations[api.AnnotationRenewedAfter])
	return at
}

// DeepCopyObject implements runtime.Object. It returns f, since facts are immutable.
func (f *SecretFacts) DeepCopyObject() runtime.Object { return f }

// chainDigest identifies the certificates that are served after a leaf.
func chainDigest(chain []*x509.Certificate) [32]byte {
	h := sha256.New()
	for _, c := range chain {
		h.Write(c.Raw)
	}
	return [32]byte(h.Sum(nil))
}

// usable reports whether the Secret holds a valid pair that has not expired.
func (f *SecretFacts) usable(now time.Time) bool {
	return f != nil && !f.Empty && f.Defect == "" && now.Before(f.Leaf.NotAfter)
}

// maxFinalizer is the most characters of a finalizer that are cached: those of a qualified name.
const maxFinalizer = 253 + 1 + 63

// rememberFinalizers stores the first maxNamesShown finalizers of a Secret that is being deleted.
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
