package kubeletsync

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

// byItself is the time after a change within which pods are woken for it: a kubelet updates the
// files within 92 s anyway.
const byItself = 2 * time.Minute

// Content is that of a Secret or of a namespace's CA bundle.
type Content struct {
	Hash  string    // of the leaf, of the leaf and a chain that was corrected, or of the bundle
	Since time.Time // of that content, to the second
	// Changed: it replaced other content, as opposed to being the first that was seen.
	Changed bool
}

// fresh reports whether pods are woken for the content.
func (c Content) fresh(now time.Time) bool { return c.Changed && now.Before(c.Since.Add(byItself)) }

// LeafContent returns the content of a Secret after a rotation.
func LeafContent(r serving.Rotation) Content {
	hash := r.Leaf
	if r.Chain != "" {
		sum := sha256.Sum256([]byte(r.Leaf + r.Chain))
		hash = hex.EncodeToString(sum[:])
	}
	return Content{Hash: hash, Since: r.Since, Changed: r.Replaced}
}

// Bundle is what is cached of a ConfigMap with the CA bundle. It is a runtime.Object, so that an
// informer can store it in place of the ConfigMap.
type Bundle struct {
	metav1.TypeMeta
	metav1.ObjectMeta        // its identity, and nothing else
	Hash              string // SHA-256 of the bundle in hex; empty if there is none
	Since             time.Time
}

// BundleOf returns what is cached of the ConfigMap. Its managedFields have the time of the bundle.
func BundleOf(cm *corev1.ConfigMap) *Bundle {
	b := &Bundle{Since: cm.CreationTimestamp.Time}
	b.ObjectMeta = api.Identity(&cm.ObjectMeta)
	if data := cm.Data[api.BundleKey]; data != "" {
		sum := sha256.Sum256([]byte(data))
		b.Hash = unique.Make(hex.EncodeToString(sum[:])).Value() // nearly all namespaces share it
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

// Content returns the content of the bundle's ConfigMap; false if there is none.
func (b *Bundle) Content() (Content, bool) {
	if b == nil || b.Hash == "" {
		return Content{}, false
	}
	return Content{Hash: b.Hash, Since: b.Since, Changed: true}, true
}
