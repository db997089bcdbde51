package signer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Situation is everything that a decision about one Secret depends on.
type Situation struct {
	Now time.Time
	// Key names the Secret that the decision is about.
	Key types.NamespacedName
	// OptedIn: the namespace has the label. Terminating: it is being deleted.
	OptedIn, Terminating bool
	// Asking are the Services that name the Secret, Owning those among its
	// owners that do not; none of them is being deleted. Their conditions and
	// annotations are as they were last read or written.
	Asking, Owning []*corev1.Service
	// Secret is what exists under the name and has our label, or was read
	// because it might be ours; nil if there is none.
	Secret *SecretFacts
	// Obstacle is what exists under the name without our label, known by its
	// metadata only. At most one of Secret and Obstacle is set.
	Obstacle *metav1.ObjectMeta
	// Kept are the other Secrets that a Service of Asking or Owning owns, by its UID,
	// sorted.
	Kept map[types.UID][]string

	Instance string // value of our label
	Limits   api.Limits
	// OpenShift: OpenShift's annotations count, and are written.
	OpenShift bool
	Authority *pki.Authority // nil exactly if AuthorityErr is not
	// AuthorityErr is why nothing can be signed.
	AuthorityErr error
	// Widened is the time over which certificates get names that clients accept since a
	// root has gone that did not permit them. Zero: at once.
	Widened pki.Window
	// Rates are the limits of how often certificates are issued, Slot is when they let the
	// Secret have its next one.
	Rates Rates
	Slot  Slot
}

// kept returns the other Secrets that the Service keeps.
func (s Situation) kept(svc *corev1.Service) []string {
	var kept []string
	for _, name := range s.Kept[svc.UID] {
		if s.mayKeep(svc, name) {
			kept = append(kept, name)
		}
	}
	return kept
}
