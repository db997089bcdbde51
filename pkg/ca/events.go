package ca

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reasons of events on the CA Secret, beside the Reason constants of a CA that
// cannot sign and the Warn constants (both Warning).
const (
	EventCreated   = "CACreated"      // Normal: a CA was made that owes nothing to any before
	EventPrepared  = "CAPrepared"     // Normal: the next generation was made
	EventAbandoned = "CAAbandoned"    // Normal: it is forgotten before it signed: the CA elsewhere is another
	EventTrusted   = "CATrusted"      // Normal: every target holds its root
	EventPromoted  = "CAPromoted"     // Normal: it signs
	EventRetired   = "CARetired"      // Normal: an older root left the bundle
	EventRefused   = "CARefused"      // Warning: a rotation that was asked for is not made
	EventUsable    = "CAUsable"       // Normal: a problem is over
	EventRestored  = "StatusRestored" // Normal: someone changed or deleted the status ConfigMap
)

func (c *Controller) event(uid types.UID, eventType, reason, note string) {
	// The recorder needs a name to point at, which an absent Secret has too; it
	// is given no object that holds the data.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.cfg.Namespace, Name: api.CASecretName, UID: uid}}
	c.events.Eventf(secret, nil, eventType, reason, reason, "%s", bounded(note))
}

// bounded keeps a note within what the API server takes (1 kB, events.k8s.io/v1).
func bounded(note string) string {
	const limit = 1000
	if len(note) <= limit {
		return note
	}
	return note[:limit] + "…"
}
