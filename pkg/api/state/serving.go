package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Serving is the state of condition Serving, which the rotator writes.
type Serving struct {
	Leaf  string    `json:"leaf,omitempty"` // fingerprint of the leaf that the pods should serve
	Since time.Time `json:"since,omitzero"` // since when, in whole seconds
	// Ports is the hash of the ports that the condition is about (api.NeedsHash).
	Ports string `json:"ports,omitempty"`
	// Stale are the first workloads whose pods serve an older certificate, at most MaxStale.
	Stale []StaleWorkload `json:"stale,omitempty"`
}

// StaleWorkload is a workload with pods that serve an older certificate.
type StaleWorkload struct {
	// Kind and Name are empty for pods without a controller.
	Kind     string       `json:"kind,omitempty"`
	Name     string       `json:"name,omitempty"`
	OnRotate api.OnRotate `json:"onRotate"`
}

// MaxStale is the largest number of workloads in a condition.
const MaxStale = 5

// ServingOf returns the state of the Service's condition Serving, or false and only the Ports if it
// has no leaf, for example because the pods make their keys.
func ServingOf(svc *corev1.Service) (Serving, bool) {
	s := read[Serving](svc, api.ConditionServing)
	if !hashForm.MatchString(s.Ports) {
		s.Ports = ""
	}
	if !api.IsFingerprint(s.Leaf) || s.Since.IsZero() {
		return Serving{Ports: s.Ports}, false
	}
	s.Since, s.Stale = s.Since.UTC(), s.Stale[:min(len(s.Stale), MaxStale)]
	return s, true
}

// ServingIsOfNow reports whether condition Serving is about the Service's current ports and
// certificate. After a change it is not, until the rotator has probed again.
func ServingIsOfNow(svc *corev1.Service) bool {
	if api.Condition(svc, api.ConditionServing) == nil {
		return false
	}
	said, ofLeaf := ServingOf(svc)
	if api.WantsPodKeys(svc) {
		return said.Ports == api.NeedsHash(svc) && !ofLeaf
	}
	leaf, known := LeafOf(svc)
	return said.Ports == api.NeedsHash(svc) && (!known || said.Leaf == leaf)
}
