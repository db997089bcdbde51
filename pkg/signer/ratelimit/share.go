package ratelimit

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Share is the part of the Rates that a request uses whose key another party holds. The
// namespace of both names is the tenant of the request: the namespace of the requesting pod
// or ServiceAccount, or, for another user, a text that is not a valid namespace.
type Share struct {
	// Request is the request's key in Pace. It contains the UID and is not the name of a Secret.
	Request types.NamespacedName
	// Subject is what Rates.Secret limits: the certificates of one pod, or those of another
	// requester with the same names. Text describes it in messages.
	Subject types.NamespacedName
	Text    string
	// Group names in messages all that Rates.Namespace limits together.
	Group string
	// FirstIsFree: the certificate takes no token of the namespace if the subject's own limit
	// is full, as for the first certificate of a Secret.
	FirstIsFree bool
}

const oneNamespace = "one namespace"

// RequestName returns the key of a request in Pace.
func RequestName(tenant string, request types.UID) types.NamespacedName {
	return types.NamespacedName{Namespace: tenant, Name: "request/" + string(request)}
}

// ShareOfPod returns the Share of a request of the pod, by either API.
func ShareOfPod(request types.UID, namespace string, pod types.UID) Share {
	return Share{
		Request:     RequestName(namespace, request),
		Subject:     types.NamespacedName{Namespace: namespace, Name: "pod/" + string(pod)},
		Text:        "one pod",
		Group:       oneNamespace,
		FirstIsFree: true,
	}
}

// ShareOfOther returns the Share of a request by a tenant that is not a pod, for names that are
// sorted.
func ShareOfOther(request types.UID, tenant string, dnsNames []string, ips []netip.Addr) Share {
	names := sha256.Sum256(fmt.Append(nil, strings.Join(dnsNames, ","), ips))
	return Share{
		Request: RequestName(tenant, request),
		Subject: types.NamespacedName{Namespace: tenant, Name: fmt.Sprintf("names/%x", names)},
		Text:    "one requester with these names",
		Group:   oneNamespace,
	}
}

// ReserveShare takes what the request needs and has not taken: a token of its subject, and
// one of its namespace unless its first certificate is free. The latter is taken as of now,
// also if the subject has to wait for longer: one pod that asks all the time must not put off
// what others of its namespace do.
func (p *Pace) ReserveShare(s Share, now time.Time) Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slot, taken := p.slots[s.Request]; taken {
		return slot
	}
	p.sweep(now)
	var slot Slot
	if !s.FirstIsFree || p.secrets[s.Subject].After(now) {
		slot.Namespace = p.namespaces.Take(s.Subject.Namespace, now, 1)
	}
	slot.Secret, p.secrets[s.Subject] = p.rates.Secret.Take(p.secrets[s.Subject], now, 1)
	p.slots[s.Request] = slot
	return slot
}

// Waits reserves the Slot of a request, and returns until when the request has to wait, and why;
// false if it may be answered now.
func (p *Pace) Waits(s Share, now time.Time) (until time.Time, why string, waits bool) {
	return p.rates.waits(s, p.ReserveShare(s, now), now)
}

func (r Rates) waits(s Share, slot Slot, now time.Time) (until time.Time, why string, waits bool) {
	until, limit := r.reached(slot, s.Text, s.Group)
	if !until.After(now) {
		return time.Time{}, "", false
	}
	return until, fmt.Sprintf("%s; this request is answered at %s", limit, wholeSecond(until)), true
}
