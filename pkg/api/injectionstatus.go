package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// InjectionStatus is what the webhook did to a pod: the value of AnnotationStatus, as
// JSON.
type InjectionStatus struct {
	// Secret is the Secret that was chosen for the pod; empty if none was.
	Secret string `json:"secret,omitempty"`
	// KeySource is KeySourcePod if the pod's key is made by its kubelet, else empty.
	KeySource KeySource `json:"keySource,omitempty"`
	// Service is the Service that asks for the Secret and selects the pod; empty
	// if there is none.
	Service string `json:"service,omitempty"`
	// Containers lists what each container got, separated by commas, by the
	// container's name.
	Containers map[string]string `json:"containers,omitempty"`
	// StartTLS is what the program of a container is known to speak before TLS: a
	// starttls.Protocol by the number of the port.
	StartTLS map[string]string `json:"startTLS,omitempty"`
	// Restarts are the containers whose program is known to take up a new certificate only when
	// it is started again.
	Restarts []string `json:"restarts,omitempty"`
	// Reason is why nothing was injected, or nothing but the CA bundle; empty if more was.
	Reason string `json:"reason,omitempty"`
	// Notes are for people, each "REASON: sentence".
	Notes []string `json:"notes,omitempty"`
}

// Format returns the annotation's value. It is written for each pod, so it is the text that
// encoding/json makes of s, without its look at types.
func (s InjectionStatus) Format() string {
	o := object{make([]byte, 0, 512)} // most are shorter
	o.text("secret", s.Secret)
	o.text("keySource", string(s.KeySource))
	o.text("service", s.Service)
	o.texts("containers", s.Containers)
	o.texts("startTLS", s.StartTLS)
	o.list("restarts", s.Restarts)
	o.text("reason", s.Reason)
	o.list("notes", s.Notes)
	return o.String()
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

// NotInjectedFor returns the Secret that the webhook chose for the pod without
// injecting it, or "". A status without a Secret was written when no Service
// selected the pod, so it does not explain why the pod lacks the Secret of a
// Service that selects it now.
func (s InjectionStatus) NotInjectedFor() (secret string) {
	if s.Reason == "" {
		return ""
	}
	return s.Secret
}

// Protocols returns what is well-formed of StartTLS, by the number of the port, and at most
// MaxProbes.
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
