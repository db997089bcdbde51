package state

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Guarded is the state of condition Guarded, which the rotator writes.
type Guarded struct {
	// Of is the hash of the list, the selector and the ports that the condition is about (api.GuardHash).
	Of string `json:"of,omitempty"`
}

// GuardedIsOfNow reports whether condition Guarded is about the Service's current list, selector and ports.
func GuardedIsOfNow(svc *corev1.Service) bool {
	return api.Condition(svc, api.ConditionGuarded) != nil && read[Guarded](svc, api.ConditionGuarded).Of == api.GuardHash(svc)
}
