package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Serving is the state beside condition Serving, which the rotator writes.
type Serving struct {
	Leaf  string    `json:"leaf,omitempty"` // fingerprint of the leaf that the pods should serve
	Since time.Time `json:"since,omitzero"` // when it became that, in whole seconds
	// Ports is the hash of the ports that it is about (api.NeedsHash).
	Ports string `json:"ports,omitempty"`
	// Stale are the first workloads whose pods serve an older certificate, at most MaxStale.
	Stale []StaleWorkload `json:"stale,omitempty"`
}

// StaleWorkload is a workload with pods that serve an older certificate than they should.
type StaleWorkload struct {
	// Kind and Name are empty for pods without a controller.
	Kind     string       `json:"kind,omitempty"`
	Name     string       `json:"name,omitempty"`
	OnRotate api.OnRotate `json:"onRotate"`
}

// MaxStale is how many workloads a condition names.
const MaxStale = 5

// ServingOf returns the state of the Service's condition Serving, or false if there is none or it
// names no leaf, as that of pods with keys of their own: of that only the Ports are returned.
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

// AboutPorts reports whether the state is about the ports that the Service has now.
func (s Serving) AboutPorts(svc *corev1.Service) bool { return s.Ports == api.NeedsHash(svc) }

// ServingIsOfNow reports whether condition Serving of the Service is about the ports and the
// certificate that it has now. It is not until the rotator has looked again.
func ServingIsOfNow(svc *corev1.Service) bool {
	if api.Condition(svc, api.ConditionServing) == nil {
		return false
	}
	said, ofLeaf := ServingOf(svc)
	if api.WantsPodKeys(svc) {
		return said.AboutPorts(svc) && !ofLeaf
	}
	leaf, known := LeafOf(svc)
	return said.AboutPorts(svc) && (!known || said.Leaf == leaf)
}
