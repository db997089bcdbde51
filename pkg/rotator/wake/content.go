package wake

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// byItself is how long after a change no pod is woken for it any more: a kubelet
// updates the files of a pod within 92 s without being woken.
const byItself = 2 * time.Minute

// recently is how long before a new certificate a request for it may lie.
const recently = 10 * time.Minute

// Class is how urgent it is that pods get new files.
type Class int

// The classes, the most urgent first.
const (
	// First: the pod is one of servingcert's own. As long as the webhook serves what
	// nobody trusts, no pod is created in an opted-in namespace.
	First Class = iota
	// Urgent: a person asked for it, it replaces what was damaged or is distrusted.
	Urgent
	// Routine: it was time.
	Routine
	classes
)

// Content is what a Secret or the bundle's ConfigMap of a namespace holds.
type Content struct {
	Hash  string    // of the leaf, or of the bundle
	Since time.Time // when it became that, to the second
	// Changed: it became that by a change, as opposed to having been that when it was
	// first seen.
	Changed bool
	Class   Class
}

// fresh reports whether pods are woken for the content.
func (c Content) fresh(now time.Time) bool { return c.Changed && now.Before(c.Since.Add(byItself)) }

// Trust is what the CA is doing.
type Trust struct {
	// Distrusted: earlier roots were dropped at once, and what they signed is worth
	// nothing.
	Distrusted bool
	// Reissuing: certificates are replaced before they are due, over a window, because
	// another generation of the CA signs.
	Reissuing bool
}

// TrustOf returns what the CA is doing, by its status.
func TrustOf(s api.CAStatus, now time.Time) Trust {
	distrust := s.Rotation.Mode == api.RotateDistrust || s.Rotation.Mode == api.RotateReplaceLost
	alone := strings.Count(s.Bundle, "-----BEGIN CERTIFICATE-----") == 1 // a later succession has two roots
	under := s.Phase == api.PhaseReissue || now.Before(s.Since.Add(recently))
	t := Trust{Distrusted: distrust && alone && under}
	t.Reissuing = s.Phase == api.PhaseReissue && !t.Distrusted
	return t
}

// LeafContent returns what a Secret holds since a rotation.
func LeafContent(r serving.Rotation, trust Trust) Content {
	c := Content{Hash: r.Leaf, Since: r.Since, Changed: r.Replaced, Class: Routine}
	asked := !r.Asked.IsZero() && !r.Asked.After(r.Since.Add(time.Minute)) && r.Since.Before(r.Asked.Add(recently))
	early := r.Due.After(r.Since.Add(time.Minute)) // clocks differ
	if trust.Distrusted || asked || early && !trust.Reissuing {
		c.Class = Urgent
	}
	return c
}

// Bundle is what is remembered of a ConfigMap with the CA bundle. It is a
// runtime.Object, so that an informer can hold it in place of the ConfigMap.
type Bundle struct {
	metav1.TypeMeta
	metav1.ObjectMeta        // its identity, and nothing else
	Hash              string // SHA-256 of the bundle in hex; empty if there is none
	Since             time.Time
}

// BundleOf returns what is remembered of the ConfigMap. When the bundle was written
// is in its managedFields.
func BundleOf(cm *corev1.ConfigMap) *Bundle {
	b := &Bundle{Since: cm.CreationTimestamp.Time}
	b.ObjectMeta = api.Identity(&cm.ObjectMeta)
	if data := cm.Data[api.BundleKey]; data != "" {
		sum := sha256.Sum256([]byte(data))
		b.Hash = unique.Make(hex.EncodeToString(sum[:])).Value() // that of nearly all namespaces is the same
	}
	for _, f := range cm.ManagedFields {
		if f.Time != nil && f.FieldsV1 != nil && f.Time.After(b.Since) && strings.Contains(f.FieldsV1.GetRawString(), `"f:`+api.BundleKey+`"`) {
			b.Since = f.Time.Time
		}
	}
	return b
}

// DeepCopyObject implements runtime.Object.
func (b *Bundle) DeepCopyObject() runtime.Object {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// Content returns what the bundle's ConfigMap holds; false if there is none.
func (b *Bundle) Content(trust Trust) (Content, bool) {
	if b == nil || b.Hash == "" {
		return Content{}, false
	}
	c := Content{Hash: b.Hash, Since: b.Since, Changed: true, Class: Routine}
	if trust.Distrusted {
		c.Class = Urgent
	}
	return c, true
}
