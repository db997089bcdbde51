package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// InjectionStatus describes what the webhook did to a pod. It is the value of
// AnnotationStatus, as JSON.
type InjectionStatus struct {
	// Secret is the Secret that was chosen for the pod; empty if none was.
	Secret string `json:"secret,omitempty"`
	// KeySource is KeySourcePod if the pod's key is made by its kubelet, else empty.
	KeySource KeySource `json:"keySource,omitempty"`
	// Service is the Service that requests the Secret and selects the pod; empty
	// if there is none.
	Service string `json:"service,omitempty"`
	// Containers maps the name of a container to what it got, separated by commas.
	Containers map[string]string `json:"containers,omitempty"`
	// StartTLS maps the number of a port to the starttls.Protocol that the program of a
	// container is known to speak there.
	StartTLS map[string]string `json:"startTLS,omitempty"`
	// Restarts are the containers whose program is known to load a new certificate only when
	// it is restarted.
	Restarts []string `json:"restarts,omitempty"`
	// Reason is why nothing, or only the CA bundle, was injected; empty if more was.
	Reason string `json:"reason,omitempty"`
	// Notes are for people, each "REASON: sentence".
	Notes []string `json:"notes,omitempty"`
}

// Format returns the annotation's value.
func (s InjectionStatus) Format() string {
	text, err := json.Marshal(s)
	if err != nil { // texts always marshal
		panic(err)
	}
	return string(text)
}

// ParseInjectionStatus returns what Format wrote, or false if the value is something
// else or longer than MaxAnnotation.
func ParseInjectionStatus(value string) (InjectionStatus, bool) {
	var s InjectionStatus
	if value == "" || len(value) > MaxAnnotation || json.Unmarshal([]byte(value), &s) != nil {
		return InjectionStatus{}, false
	}
	return s, true
}

// NotInjectedFor returns the Secret that the webhook chose for the pod but did not
// inject, or "". A status without a Secret was written when no Service selected the
// pod, so it does not explain why the pod lacks the Secret of a Service that selects
// it now.
func (s InjectionStatus) NotInjectedFor() (secret string) {
	if s.Reason == "" {
		return ""
	}
	return s.Secret
}

// Protocols returns the well-formed entries of StartTLS, at most MaxProbes.
func (s InjectionStatus) Protocols() map[uint16]starttls.Protocol {
	var out map[uint16]starttls.Protocol
	for _, port := range slices.Sorted(maps.Keys(s.StartTLS)) {
		number, err := strconv.ParseUint(port, 10, 16)
		if p := starttls.Protocol(s.StartTLS[port]); err == nil && p.Known() && len(out) < MaxProbes {
			if out == nil {
				out = map[uint16]starttls.Protocol{}
			}
			out[uint16(number)] = p
		}
	}
	return out
}
