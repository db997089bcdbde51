package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Serving is the state beside condition Serving, which the rotator writes. Which workloads serve
// another leaf is in [api.ServingStatus].
type Serving struct {
	Leaf  string    `json:"leaf,omitempty"` // fingerprint of the leaf that the pods should serve
	Since time.Time `json:"since,omitzero"` // when it became that, in whole seconds
}

// ServingOf returns the state of the Service's condition Serving, or false if there is none or it
// names no leaf, as that of pods with keys of their own.
func ServingOf(svc *corev1.Service) (Serving, bool) {
	s, found := read[Serving](svc, api.ConditionServing)
	if !found {
		s = formerServing(svc)
	}
	if !api.IsFingerprint(s.Leaf) || s.Since.IsZero() {
		return Serving{}, false
	}
	s.Since = s.Since.UTC()
	return s, true
}
