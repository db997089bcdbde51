package status

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Serving is the condition by which the rotator reports whether the pods serve a
// Service's certificate, in the form of -o json.
type Serving struct {
	Status  string `json:"status"` // True, False or Unknown
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Leaf    string `json:"leaf,omitempty"` // that it is about: SHA-256 of its DER, in hex
	// Since is when that leaf was first in the Secret.
	Since *time.Time `json:"since,omitempty"`
	// Stale are the first workloads whose pods serve an older certificate.
	Stale []state.StaleWorkload `json:"stale,omitempty"`
	// Changed is when the status became what it is.
	Changed time.Time `json:"changed"`
	// Outdated: it is about another certificate, or other ports, than the Service has now, as the
	// rotator has not looked since.
	Outdated bool `json:"outdated,omitempty"`
}

// servingOf returns nil if the rotator has said nothing of the Service.
func servingOf(svc *corev1.Service) *Serving {
	c := api.Condition(svc, api.ConditionServing)
	if c == nil {
		return nil
	}
	s := &Serving{
		Status: api.Escape(string(c.Status)), Reason: api.Escape(c.Reason), Message: api.Escape(c.Message), Changed: c.LastTransitionTime.Time,
		Outdated: !state.ServingIsOfNow(svc),
	}
	if facts, ok := state.ServingOf(svc); ok {
		s.Leaf, s.Since = facts.Leaf, &facts.Since
		for _, w := range facts.Stale {
			s.Stale = append(s.Stale, state.StaleWorkload{Kind: api.Escape(w.Kind), Name: api.Escape(w.Name), OnRotate: api.OnRotate(api.Escape(string(w.OnRotate)))})
		}
	}
	return s
}

// isTrue reports whether the pods were seen to serve what the Service has now.
func (s *Serving) isTrue() bool { return s.wasTrue() && !s.Outdated }

func (s *Serving) wasTrue() bool { return s != nil && s.Status == string(metav1.ConditionTrue) }

// Column is what a table shows: True, or why not.
func (s *Serving) Column() string {
	switch {
	case s == nil:
		return ""
	case s.isTrue():
		return s.Status
	case s.Outdated:
		return "Outdated"
	}
	return s.Reason
}

// sawReload reports whether a program that was started then was seen to serve a
// certificate that is younger. A pod may be older than its first certificate, for which
// the kubelet holds it, so that its age says nothing.
func (s *Serving) sawReload(started time.Time) bool {
	return s.wasTrue() && s.Since != nil && !started.IsZero() && started.Before(*s.Since)
}

// restartFollows reports whether one of the stale workloads asks the rotator for a restart.
func (s *Serving) restartFollows() bool {
	return slices.ContainsFunc(s.Stale, func(w state.StaleWorkload) bool { return w.OnRotate == api.OnRotateRestart })
}

// workload is what made a pod. Kind is api.PodKind of a pod without a controller.
type workload struct{ namespace, kind, name string }

// String returns "shop Deployment/web", or "shop Pod/web-0" of a pod without a
// controller.
func (w workload) String() string { return w.namespace + " " + w.kind + "/" + w.name }
