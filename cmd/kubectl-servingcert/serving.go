package main

import (
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// servingStatus is what the rotator says of who serves a Service's certificate, in
// the form of -o json.
type servingStatus struct {
	Status  string `json:"status"` // True, False or Unknown
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Leaf    string `json:"leaf,omitempty"` // that it is about: SHA-256 of its DER, in hex
	// Since is when that leaf was first in the Secret.
	Since *time.Time `json:"since,omitempty"`
	// Changed is when the status became what it is.
	Changed time.Time `json:"changed"`
}

// servingOf returns nil if the rotator has said nothing of the Service.
func servingOf(svc *corev1.Service) *servingStatus {
	c := api.Condition(svc, api.ConditionServing)
	if c == nil {
		return nil
	}
	s := &servingStatus{Status: string(c.Status), Reason: c.Reason, Message: c.Message, Changed: c.LastTransitionTime.Time}
	if facts, ok := api.ServingOf(svc); ok {
		s.Leaf, s.Since = facts.Leaf, &facts.Since
	}
	return s
}

func (s *servingStatus) isTrue() bool { return s != nil && s.Status == string(metav1.ConditionTrue) }

// word is what a table shows: True, or why not.
func (s *servingStatus) word() string {
	switch {
	case s == nil:
		return ""
	case s.isTrue():
		return s.Status
	}
	return s.Reason
}

// isStale reports whether the workload is one of those that are said to serve an
// older certificate.
func (s *servingStatus) isStale(w pods.Workload) bool {
	if s.Reason != api.ServingStale {
		return false
	}
	// The names of others may begin with this one.
	return regexp.MustCompile(regexp.QuoteMeta(w.String()) + `([ ,:;]|$)`).MatchString(s.Message)
}

// sawReload reports whether a pod of that age was seen to serve a certificate that
// is younger than itself.
func (s *servingStatus) sawReload(created time.Time) bool {
	return s.isTrue() && s.Since != nil && created.Before(*s.Since)
}
