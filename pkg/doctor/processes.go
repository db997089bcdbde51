package doctor

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// ProcessState tells whether a component of servingcert is running.
type ProcessState string

// The states.
const (
	ProcessRuns    ProcessState = "runs"    // a replica is working
	ProcessAway    ProcessState = "away"    // no replica is working
	ProcessNotSeen ProcessState = "notSeen" // the state could not be read
)

// Process is a component of servingcert and its state, as in -o json.
type Process struct {
	Name  string       `json:"name"` // signer, trust, rotator or webhook: the end of its Deployment's name
	State ProcessState `json:"state"`
	// Object is the object that shows the state: KIND NAMESPACE/NAME.
	Object string `json:"object"`
	// Why is the cause if it is not known to run.
	Why string `json:"why,omitempty"`
	// Absent: the object does not exist.
	Absent bool `json:"-"`
}

// missing describes the effect of a component that is not running.
var missing = map[string]string{
	"signer":  "no signer runs, so no certificate is issued or renewed",
	"trust":   "no trust rotator runs, so no new CA bundle is distributed",
	"rotator": "no pods rotator runs, so pods are neither probed nor restarted",
	"webhook": "no webhook runs, so new pods of opted-in namespaces are refused or not injected",
}

// String returns the problem as a sentence, if the component is not running.
func (p Process) String() string { return fmt.Sprintf("%s: %s: %s", missing[p.Name], p.Object, p.Why) }

// Leading returns the components that work only while they hold a Lease. leases are those of
// servingcert's namespace by name, and now is the time of the API server.
func Leading(namespace string, leases map[string]*coordinationv1.Lease, now time.Time) []Process {
	var out []Process
	for _, name := range leaders {
		out = append(out, LeaderOf(namespace, name, leases[namePrefix+name], now))
	}
	return out
}

// LeaderOf returns the state of one of the components of Leading. lease is nil if its Lease does not exist.
func LeaderOf(namespace, name string, lease *coordinationv1.Lease, now time.Time) Process {
	p := Process{Name: name, State: ProcessRuns, Object: leaseOf(namespace, name), Absent: lease == nil}
	if p.Why = unheld(lease, name, now); p.Why != "" {
		p.State = ProcessAway
	}
	return p
}

// LeaseName returns the name of a component's Lease.
func LeaseName(process string) string { return namePrefix + process }

// LeadingNotSeen returns the components of Leading if the Leases cannot be read.
func LeadingNotSeen(namespace, why string) []Process {
	var out []Process
	for _, name := range leaders {
		out = append(out, Process{Name: name, State: ProcessNotSeen, Object: leaseOf(namespace, name), Why: why})
	}
	return out
}

func leaseOf(namespace, process string) string {
	return "Lease " + namespace + "/" + LeaseName(process)
}

// unheld returns why no replica holds the Lease, or "".
func unheld(lease *coordinationv1.Lease, process string, now time.Time) string {
	if lease == nil {
		return fmt.Sprintf("it does not exist: no %s has run yet, or it may not create it", process)
	}
	renewed := renewedAt(lease)
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || renewed.IsZero() {
		return "no replica holds it"
	}
	seconds := int32(15)
	if lease.Spec.LeaseDurationSeconds != nil {
		seconds = *lease.Spec.LeaseDurationSeconds
	}
	if late := now.Sub(renewed); late > time.Duration(seconds)*time.Second {
		return fmt.Sprintf("%s has not renewed it for %s", *lease.Spec.HolderIdentity, late.Truncate(time.Second))
	}
	return ""
}

// renewedAt returns when the Lease was renewed by the API server's clock: the last write of renewTime in
// managedFields. The value of renewTime is by the holder's clock, and is the fallback.
func renewedAt(lease *coordinationv1.Lease) (last time.Time) {
	for _, entry := range lease.ManagedFields {
		if entry.Time != nil && entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:renewTime"`)) && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	if last.IsZero() && lease.Spec.RenewTime != nil {
		return lease.Spec.RenewTime.Time
	}
	return last
}

// WebhookService is the Service of the webhook.
const WebhookService = namePrefix + "webhook"

// WebhookOf returns the webhook's state, from the EndpointSlices of its Service. Without any, the Service
// does not exist or has had no pods, and the API server cannot call the webhook.
func WebhookOf(namespace string, of []discoveryv1.EndpointSlice) Process {
	ready := func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }
	p := WebhookNotSeen(namespace, "")
	switch {
	case slices.ContainsFunc(of, func(s discoveryv1.EndpointSlice) bool { return slices.ContainsFunc(s.Endpoints, ready) }):
		p.State = ProcessRuns
	case len(of) == 0:
		p.State, p.Why = ProcessAway, "it does not exist, or has no EndpointSlice"
	default:
		p.State, p.Why = ProcessAway, "it has no ready endpoint"
	}
	return p
}

// WebhookNotSeen returns the webhook's state if its EndpointSlices cannot be read.
func WebhookNotSeen(namespace, why string) Process {
	return Process{Name: "webhook", State: ProcessNotSeen, Object: "Service " + namespace + "/" + WebhookService, Why: why}
}
