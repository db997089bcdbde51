package status

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Serving is condition Serving, by which the rotator reports whether pods serve the
// certificate, in the form of -o json.
type Serving struct {
	Status  string `json:"status"` // True, False or Unknown
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Leaf    string `json:"leaf,omitempty"` // the leaf it is about: SHA-256 of its DER, in hex
	// Since is when that leaf was first in the Secret.
	Since *time.Time `json:"since,omitempty"`
	// Stale lists the first workloads whose pods serve an older certificate.
	Stale []state.StaleWorkload `json:"stale,omitempty"`
	// Changed is when the status changed last.
	Changed time.Time `json:"changed"`
	// Outdated: the Service has had another certificate or other ports since, and the rotator has
	// not probed it again.
	Outdated bool `json:"outdated,omitempty"`
}

// servingOf returns nil if the rotator has not reported on the Service.
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

// isTrue reports whether the pods were seen to serve the current certificate.
func (s *Serving) isTrue() bool { return s.wasTrue() && !s.Outdated }

func (s *Serving) wasTrue() bool { return s != nil && s.Status == string(metav1.ConditionTrue) }

// Column returns the text of a table: True, or why not.
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

// sawReload reports whether a program that was started then was seen to serve a younger
// certificate. The age of its pod does not count: the kubelet holds a pod back until its
// first certificate exists.
func (s *Serving) sawReload(started time.Time) bool {
	served := s.wasTrue() || s != nil && s.Reason == api.ServingNotMounted // all pods that mount it serve it
	return served && s.Since != nil && !started.IsZero() && started.Before(*s.Since)
}

// restartFollows reports whether the rotator may restart one of the stale workloads.
func (s *Serving) restartFollows() bool {
	return slices.ContainsFunc(s.Stale, func(w state.StaleWorkload) bool { return w.OnRotate == api.OnRotateRestart })
}

// workload is the controller of a pod, or the pod itself (api.PodKind) without one.
type workload struct{ namespace, kind, name string }

// String returns "shop Deployment/web", or "shop Pod/web-0" without a controller.
func (w workload) String() string { return w.namespace + " " + w.kind + "/" + w.name }
