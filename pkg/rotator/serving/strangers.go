package serving

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// GuardState is what a port of a pod does to clients that no list names, where a Service lists them (api.Guards).
type GuardState string

// The states, in the order in which those of the ports of a pod count.
const (
	guardAdmits  GuardState = "admits"     // it admitted a stranger
	guardNoList  GuardState = "no_list"    // its proxy reads no list, or the list opens the port
	guardWatch   GuardState = "watch"      // the list has api.ClientsWatch: it admits all, and strangers do not try
	guardOther   GuardState = "other_list" // its list is not what the Services ask
	guardNotSeen GuardState = "not_seen"
	guardPending GuardState = "pending" // strangers have not tried since the list changed, or within the propagation time
	guardRefuses GuardState = "refuses"
)

// byDanger has the states in their order.
var byDanger = []GuardState{guardAdmits, guardNoList, guardWatch, guardOther, guardNotSeen, guardPending, guardRefuses}

// proxied returns the names of those ports whose proxy reads which clients it admits.
func proxied(t pods.Template) map[uint16]string {
	names := t.GuardedPorts()
	if len(names) == 0 {
		return nil
	}
	out := map[uint16]string{}
	for _, p := range t.TCPPorts() {
		if slices.Contains(names, p.Name) {
			out[p.Number] = p.Name
		}
	}
	return out
}

// admitted is a port's entry in the list of a pod.
type admitted struct {
	open, watch bool
	listed      pki.SPIFFEID // as in probe.Guard
	// asked: it is what the Services ask, and so what the rotator would write.
	asked bool
}

// podList is the list of clients of a pod.
type podList struct {
	id    string // of the whole list, as in probe.Guarding
	ports map[string]admitted
}

// listOf returns the list of a pod, which is read once for all pods of the template that have the same.
func (at *endpoint) listOf(pod *pods.Facts) podList {
	known, ok := at.lists[pod.Admits]
	if ok || len(at.proxied) == 0 {
		return known
	}
	sum, lists := sha256.Sum256([]byte(pod.Admits)), api.ParseAdmits(pod.Admits, slices.Collect(maps.Values(at.proxied))...)
	known = podList{hex.EncodeToString(sum[:16]), map[string]admitted{}}
	for _, port := range at.proxied {
		entries, open := api.AdmittedAt(port+"="+lists[port], port)
		wanted, guarded := at.wanted[port]
		known.ports[port] = admitted{open, slices.Contains(entries, api.ClientsWatch), probe.ListedIn(entries, pod.Namespace), guarded && pod.AdmitsWhole() && lists[port] == wanted}
	}
	if at.lists == nil {
		at.lists = map[string]podList{}
	}
	at.lists[pod.Admits] = known
	return known
}

// wantedLists returns the lists that the proxy of a pod should have, by port, of those that a Service guards. listing are the
// Services with a list.
func wantedLists(listing []*corev1.Service, t pods.Template) map[string]string {
	if t.Guarded == "" {
		return nil
	}
	return api.ParseAdmits(api.AdmitsAfter(listing, t.LabelSet(), t.GuardedPorts(), "").Value)
}

// guards reports whether strangers try at the port: a Service lists its clients, the pod's proxy has a list, and that does
// not admit all.
func (c consumer) guards(port uint16) (admitted, bool) {
	name, ok := c.endpoint.proxied[port]
	if !ok || !c.endpoint.guarded[port] {
		return admitted{}, false
	}
	entry := c.list.ports[name]
	return entry, !entry.open && !entry.watch
}

// guardAt returns the state of a port of a ready pod, and what it did to strangers, if that is known.
func (c consumer) guardAt(port uint16, p Pace) (GuardState, *probe.Guarding) {
	entry, tries := c.guards(port)
	switch {
	case !tries && entry.watch:
		return guardWatch, nil
	case !tries:
		return guardNoList, nil
	}
	g := c.guarding(port)
	switch {
	case g != nil && g.Judgement == probe.Admitted && !g.At.Before(c.admitsEnd(p)):
		return guardAdmits, g
	case !entry.asked:
		return guardOther, nil
	case c.unverified(port, g) != "":
		return guardNotSeen, &probe.Guarding{Cause: c.unverified(port, g)}
	case g == nil && c.isUnresponsive(p):
		return guardNotSeen, &probe.Guarding{Cause: probe.CauseTimeout}
	case g == nil:
		return guardPending, nil
	case g.Judgement == probe.Refused && c.now.Sub(g.At) > 2*p.Interval:
		return guardNotSeen, &probe.Guarding{Cause: probe.CauseTimeout} // it should have been dialled since
	case g.Judgement == probe.Refused:
		return guardRefuses, g
	case g.Judgement == "" && (g.Cause.Why("") != "" || g.At.Sub(g.Since) >= p.confirmAfter()): // the first is no passing failure
		return guardNotSeen, g
	}
	return guardPending, g
}

// unverified returns the cause if the port was not dialled, or its answer not understood, after what is known of strangers.
func (c consumer) unverified(port uint16, known *probe.Guarding) probe.Cause {
	for _, a := range c.answers {
		if a.Port == port && a.Kind == probe.NotVerified && (known == nil || known.At.Before(a.At)) {
			return cmp.Or(a.Cause, probe.CauseOther)
		}
	}
	return ""
}

// guardState returns the first state of the guarded ports of a pod; false if it has none, or is not ready.
func (c consumer) guardState(p Pace) (GuardState, bool) {
	worst := len(byDanger)
	for port := range c.endpoint.guarded {
		if c.pod.Ready && slices.Contains(c.endpoint.ports, port) {
			is, _ := c.guardAt(port, p)
			worst = min(worst, slices.Index(byDanger, is))
		}
	}
	if worst == len(byDanger) {
		return "", false
	}
	return byDanger[worst], true
}

// guarding returns what the port did to strangers since the pod has its list; nil if that is not known. An earlier list may
// have been the same, with another one between them.
func (c consumer) guarding(port uint16) *probe.Guarding {
	for _, a := range c.answers {
		if a.Port == port && a.Guarding != nil && a.Guarding.Admits == c.list.id && !a.Guarding.At.Before(c.admitsSince) {
			return a.Guarding
		}
	}
	return nil
}

// admitsEnd returns until when the proxy of the pod may not have its list: the kubelet has to write it. A new pod starts with
// its list.
func (c consumer) admitsEnd(p Pace) time.Time {
	if c.admitsSince.IsZero() {
		return time.Time{}
	}
	return c.admitsSince.Add(p.Propagation)
}

// strangersTry returns when to dial the pod because of strangers; false if that is no sooner than otherwise. They try after
// a change of the list, again while they were not refused, and whenever the pod is dialled after an interval.
func (c consumer) strangersTry(p Pace) (first time.Time, sooner bool) {
	for _, a := range c.answers {
		if _, tries := c.guards(a.Port); !tries || !prompt(a) {
			continue
		}
		var at time.Time
		g := c.guarding(a.Port)
		switch {
		case g == nil:
			at = limit.Latest(c.admitsSince.Add(c.jitter(c.admitsSince, 0, p.Pause/5)), a.At.Add(p.Pause))
		case g.Judgement == probe.Refused:
			continue
		default:
			wait := min(max(p.Pause, a.At.Sub(limit.Latest(cmp.Or(g.First, g.Since), c.admitsEnd(p)))), p.Interval)
			at = a.At.Add(c.jitter(a.At, wait, wait/2))
		}
		if !sooner || at.Before(first) {
			first, sooner = at, true
		}
	}
	return first, sooner
}

// strangers returns where strangers try when the ports are dialled. All of them try again once the pod was not ready: another
// process may serve.
func (c consumer) strangers(ports []uint16, now time.Time, p Pace) map[uint16]probe.Guard {
	var out map[uint16]probe.Guard
	for _, port := range ports {
		entry, tries := c.guards(port)
		if !tries {
			continue
		}
		asks, _ := api.ParseProxyPort(c.endpoint.proxied[port])
		guard := probe.Guard{Plaintext: asks.Plaintext, Listed: entry.listed, Admits: c.list.id}
		if g := c.guarding(port); g != nil && g.Judgement == probe.Refused && !g.At.Before(c.seen) && now.Before(g.At.Add(p.Interval*9/10)) {
			guard.Leaf = g.Leaf
		}
		if out == nil {
			out = map[uint16]probe.Guard{}
		}
		out[port] = guard
	}
	return out
}
