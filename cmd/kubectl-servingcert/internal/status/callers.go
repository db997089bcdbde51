package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/proxy/clients"
)

// CallersPort lists the callers of one guarded port.
type CallersPort struct {
	Name string `json:"name"`
	// Verdict is about callers that the list refuses, as that of a ClientsPort is about plaintext.
	Verdict string `json:"verdict"`
	// Watch is true if the port admits all clients, according to the lists of the Services.
	Watch bool `json:"watch,omitempty"`
	// Since is the time from which all proxies have recorded; absent if none did.
	Since *time.Time `json:"since,omitempty"`
	// Pods have answered and guard the port. Unguarded have answered and have no list for it, so that they admit all
	// clients and record none.
	Pods      int      `json:"pods"`
	Unguarded int      `json:"unguarded,omitempty"`
	Callers   []Caller `json:"callers"`
	// Evicted is the number of identities that the proxies have evicted, and EvictedLast when one of them was last seen.
	// EvictedStrangers are clients without an identity.
	Evicted              uint64     `json:"evicted,omitempty"`
	EvictedLast          *time.Time `json:"evictedLast,omitempty"`
	EvictedStrangers     uint64     `json:"evictedStrangers,omitempty"`
	EvictedStrangersLast *time.Time `json:"evictedStrangersLast,omitempty"`
	// Advice is what to do.
	Advice string `json:"advice"`
}

// Caller is an identity that called a guarded port, or a client without one.
type Caller struct {
	// Name is NAMESPACE/SERVICEACCOUNT, or begins with NoIdentity.
	Name      string    `json:"name"`
	Addresses []string  `json:"addresses,omitempty"` // of a client without an identity
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	// Connections were admitted at that time, and Refused were not.
	Connections uint64 `json:"connections"`
	Refused     uint64 `json:"refused,omitempty"`
	// Admitted is true if the lists of the Services, as they are now and without watch, admit it. Reasons are why not.
	Admitted bool     `json:"admitted"`
	Reasons  []string `json:"reasons,omitempty"`
	// Recent: within the window.
	Recent bool `json:"recent"`
}

// NoIdentity begins the names of callers without a verified identity.
const NoIdentity = "no identity: "

// refused reports whether the list refuses a caller of the window.
func (c Caller) refused() bool { return c.Recent && !c.Admitted }

// Refuses returns whom the list of clients refuses, or would refuse without watch, and what is not known of that. It is
// empty if Clear is true.
func (c Clients) Refuses() string {
	var out []string
	for _, p := range c.Guarded {
		if p.Verdict != ClientsNone {
			out = append(out, p.Name+": "+p.Advice)
		}
	}
	for _, p := range c.Ports {
		if p.Verdict != ClientsNone {
			out = append(out, p.Name+": "+p.Advice)
		}
	}
	if len(out) == 0 && !c.Clear() {
		return "not all pods of the Service have answered"
	}
	return api.Escape(strings.Join(out, "; "))
}

// NotListed returns the identities that Refuses is about: NAMESPACE/SERVICEACCOUNT, sorted.
func (c Clients) NotListed() (out []string) {
	for _, p := range c.Guarded {
		for _, who := range p.Callers {
			if who.refused() && !strings.HasPrefix(who.Name, NoIdentity) {
				out = append(out, who.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AdmissionOf returns which clients the pod's proxy admits once it has the lists of the Services, which are those of
// its namespace; nil if its proxy has no list, or one that is not valid. ports are those of the proxy.
func AdmissionOf(pod *corev1.Pod, services []*corev1.Service, ports []string) *proxy.Admission {
	text := api.AdmitsAfter(services, pod.Labels, ports, pod.Annotations[api.AnnotationAdmits]).Value
	admission, err := proxy.ParseAdmission(text)
	if err != nil {
		return nil
	}
	return admission
}

// guards reports whether a port is guarded by the Service, or by the answer of a pod.
func (k ClientsSituation) guards(port string) bool {
	return k.guarded() || slices.ContainsFunc(k.Pods, func(pod ProxyPod) bool { return pod.guarded(port) != nil })
}

// guarded reports whether the Service lists its clients.
func (k ClientsSituation) guarded() bool { return k.Object != nil && hasList(k.Object) }

func hasList(svc *corev1.Service) bool { _, has := svc.Annotations[api.AnnotationClients]; return has }

// guarded returns what the pod answered about a port that it guards, or nil.
func (p ProxyPod) guarded(port string) *clients.PortCallers {
	i := slices.IndexFunc(p.Guarded, func(g clients.PortCallers) bool { return g.Name == port })
	if i < 0 || p.Admission == nil || p.Admission.Guard(port) == nil {
		return nil
	}
	return &p.Guarded[i]
}

// callersOf returns the callers of one guarded port, and the verdict.
func (k ClientsSituation) callersOf(port string, places map[netip.Addr][]Place, now time.Time) CallersPort {
	p := CallersPort{Name: port, Callers: []Caller{}}
	found := map[string]*Caller{}
	for _, pod := range k.Pods {
		answer := pod.guarded(port)
		if answer == nil {
			if pod.Err == "" && slices.Contains(pod.Listens, port) {
				p.Unguarded++
			}
			continue
		}
		p.Pods++
		p.Since = later(p.Since, answer.Since)
		guard := pod.Admission.Guard(port)
		p.Watch = p.Watch || guard.Watch
		if e := answer.Evicted; e.Clients > 0 {
			p.Evicted, p.EvictedLast = p.Evicted+e.Clients, later(p.EvictedLast, e.Last)
		}
		if e := answer.EvictedStrangers; e.Clients > 0 {
			p.EvictedStrangers, p.EvictedStrangersLast = p.EvictedStrangers+e.Clients, later(p.EvictedStrangersLast, e.Last)
		}
		for _, c := range answer.Callers {
			name := callerName(c, places[c.Address])
			if found[name] == nil {
				found[name] = &Caller{Name: name, First: c.First, Admitted: true}
			}
			found[name].add(c, guard.Judge(c.Caller))
		}
	}
	oldest := now.Add(-k.Window)
	for _, c := range found {
		c.Recent = c.Last.After(oldest)
		slices.Sort(c.Addresses)
		slices.Sort(c.Reasons)
		p.Callers = append(p.Callers, *c)
	}
	slices.SortFunc(p.Callers, func(a, b Caller) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Name, b.Name)) })
	p.Verdict = k.verdictOfCallers(p, oldest)
	p.Advice = k.adviceOfCallers(p)
	return p
}

// callerName returns NAMESPACE/SERVICEACCOUNT, or who has the address.
func callerName(c clients.Caller, places []Place) string {
	if c.Without == "" {
		return c.ID.Namespace + "/" + c.ID.ServiceAccount
	}
	return NoIdentity + clientName(clients.Peer{Address: c.Address, Last: c.Last}, places)
}

func (c *Caller) add(seen clients.Caller, reason proxy.Reason) {
	if seen.Without != "" {
		c.Addresses = appendOnce(c.Addresses, seen.Address.String())
	}
	if reason != "" {
		c.Admitted = false
		c.Reasons = appendOnce(c.Reasons, string(reason))
	}
	if seen.First.Before(c.First) {
		c.First = seen.First
	}
	if seen.Last.After(c.Last) {
		c.Last = seen.Last
	}
	c.Connections += seen.Connections
	c.Refused += seen.Refused
}

// later returns the later of two times.
func later(t *time.Time, other time.Time) *time.Time {
	if t != nil && t.After(other) {
		return t
	}
	return &other
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func (k ClientsSituation) verdictOfCallers(p CallersPort, oldest time.Time) string {
	switch {
	case slices.ContainsFunc(p.Callers, Caller.refused), isAfter(p.EvictedStrangersLast, oldest):
		return ClientsLeft
	case p.Pods == 0, p.Unguarded > 0, k.unanswered(), len(k.direct(p.Name)) > 0, isAfter(p.EvictedLast, oldest):
		return ClientsUnknown
	case p.Since.After(oldest):
		return ClientsTooSoon
	}
	return ClientsNone
}

func isAfter(t *time.Time, other time.Time) bool { return t != nil && t.After(other) }

// adviceOfCallers returns the next step for a guarded port.
func (k ClientsSituation) adviceOfCallers(p CallersPort) string {
	window := days(k.Window)
	switch p.Verdict {
	case ClientsLeft:
		return p.refuses(window)
	case ClientsUnknown:
		switch {
		case len(k.Pods) == 0:
			return "no running pod of the Service has a proxy yet, so who calls is not recorded: roll out the pods, and run this command again"
		case k.unanswered():
			return "not all pods of the Service have answered, so there may be clients that the list refuses"
		case p.Unguarded > 0:
			return "pods without a list for this port, which admit all clients and do not record who calls: " + strconv.Itoa(p.Unguarded) + ". Roll out those that are older than the trust domain"
		case p.Pods == 0:
			return "no running pod of the Service has this port yet, so who calls is not recorded: roll out the pods, and run this command again"
		case len(k.direct(p.Name)) > 0:
			return k.pastProxy(p.Name, ", and no list refuses them") + ", or remove it"
		}
		return "the proxies no longer list all identities of the last " + window + ", as others were seen later: the list may refuse one of them"
	case ClientsTooSoon:
		return fmt.Sprintf("the list admits all clients since %s, which is less than %s ago", p.Since.UTC().Format(time.DateTime), window)
	}
	if p.Watch {
		return fmt.Sprintf("the list admits all clients that the running pods have seen in the last %s: take %s out of annotation %s", window, api.ClientsWatch, api.AnnotationClients)
	}
	return "the list admits all clients that the running pods have seen in the last " + window
}

// refuses returns the next step for a guarded port with clients that the list refuses.
func (p CallersPort) refuses(window string) string {
	var identities, strangers []string
	for _, c := range p.Callers {
		switch name, without := strings.CutPrefix(c.Name, NoIdentity); {
		case !c.refused():
		case without:
			strangers = append(strangers, name)
		default:
			identities = append(identities, name)
		}
	}
	if len(identities)+len(strangers) == 0 {
		strangers = []string{"addresses that the proxies no longer list, as others were seen later"}
	}
	would := "the list refuses"
	if p.Watch {
		would = "without " + api.ClientsWatch + ", the list would refuse"
	}
	var steps []string
	if len(identities) > 0 {
		steps = append(steps, fmt.Sprintf("%s %s, seen in the last %s: add them to annotation %s, or move them away", would, api.Listed(identities, 5), window, api.AnnotationClients))
	}
	if len(strangers) > 0 {
		steps = append(steps, fmt.Sprintf("%s clients without an identity, seen in the last %s: %s: let them connect (%sconnect.md)", would, window, api.Listed(strangers, 5), api.Documentation))
	}
	return strings.Join(steps, "; ")
}
