package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Guard is the plan of annotation servingcert.dev/clients of a Service: first the clients of its namespace that refer to
// it and watch, which refuses nobody; later the same without watch. Who is on the list is otherwise a person's decision.
type Guard struct {
	// Wave is when the annotation is set: after the waves of the Service and of its clients. 0 if it stays.
	Wave int `json:"wave"`
	// Clients is the value to set; empty if it stays.
	Clients string `json:"clients,omitempty"`
	// Refuses is true if the value refuses all others: it has no watch.
	Refuses bool `json:"refuses,omitempty"`
	// Why is why it stays as it is.
	Why string `json:"why,omitempty"`
	// Called are identities that called, and that the list does not name: NAMESPACE/SERVICEACCOUNT. A person decides
	// whether they may: Clients does not have them.
	Called []string `json:"called,omitempty"`
	// Refer are identities whose workloads refer to it, and that the list does not name: of other namespaces, and all if
	// there is a list. Clients does not have them either.
	Refer []string `json:"refer,omitempty"`
	// After are the clients that have to connect first: NAMESPACE/KIND/NAME.
	After []string `json:"after,omitempty"`

	before  string
	has     bool     // the Service has the annotation
	entries []string // in before
}

// Watches reports whether the Service has a list that does not refuse anybody yet.
func (g *Guard) Watches() bool { return g.has }

// Unchanged reports whether the annotation of a Service is still the one of the plan.
func (g *Guard) Unchanged(svc *corev1.Service) bool {
	value, has := svc.Annotations[api.AnnotationClients]
	return value == g.before && has == g.has
}

// Merge returns the patch that sets the annotation. The API server refuses it if the Service has changed since it was
// read.
func (g *Guard) Merge(read *corev1.Service) []byte {
	return body(map[string]any{"uid": read.UID, "resourceVersion": read.ResourceVersion, "annotations": map[string]any{api.AnnotationClients: g.Clients}}, nil)
}

// Called is what the proxies of a Service with annotation servingcert.dev/clients say about those who called.
type Called struct {
	// Refuses is whom the list would refuse without watch, or what is not known of that. Empty if it would refuse nobody.
	Refuses string
	// NotListed are the identities among these: NAMESPACE/SERVICEACCOUNT, sorted. Pods are not trusted.
	NotListed []string
}

// AddCalled records what the proxies of a Service say. A Service without it was not asked.
func (b *Builder) AddCalled(namespace, name string, c Called) { b.called[key{namespace, name}] = c }

// guards plans the lists of clients of the Services, where pods have identities.
func (a after) guards(clients []Client) {
	if a.opts.TrustDomain == "" && !a.guarded {
		return
	}
	for k, s := range a.plans {
		svc := a.services[k]
		if !api.Asks(svc) || !slices.ContainsFunc(svc.Spec.Ports, proxied) {
			continue
		}
		if g := a.guard(k, svc); g != nil {
			g.wait(s, clients)
			s.Guard = g
		}
	}
}

// proxied reports whether a proxy is in front of the port.
func proxied(p corev1.ServicePort) bool { _, ok := api.ParseProxyPort(p.TargetPort.StrVal); return ok }

// guard plans the list of one Service; nil if there is nothing to do or to tell.
func (a after) guard(k key, svc *corev1.Service) *Guard {
	s, g := a.plans[k], &Guard{}
	g.before, g.has = svc.Annotations[api.AnnotationClients], hasKey(svc.Annotations, api.AnnotationClients)
	var err error
	g.entries, _, err = api.Clients(svc)
	if err != nil {
		g.Why = err.Error()
		return g
	}
	listed := without(g.entries, api.ClientsWatch)
	own, others, why := a.callersOf(k, s)
	switch {
	case g.has && len(listed) == len(g.entries), !g.has && len(own)+len(others) == 0 && why == "":
		return nil
	case why != "":
		g.Why = why
		return g
	}
	if g.Why = a.unguarded(k, svc); g.Why != "" {
		return g
	}
	called, asked := a.called[k]
	g.Called = slices.Clone(called.NotListed)
	if g.has {
		named := func(id string) bool {
			namespace, account, _ := strings.Cut(id, "/")
			return api.MayCall(withClients(svc, listed), namespace, account)
		}
		own, others = slices.DeleteFunc(own, named), slices.DeleteFunc(others, named)
		g.Refer = slices.Concat(own, others)
	} else {
		listed, g.Refer = own, others
	}
	switch {
	case g.has:
		g.Why = whyWatchStays(own, listed, called, asked)
		g.Refuses = g.Why == ""
	case len(own) == 0:
		g.Why = "only workloads of other namespaces refer to it, which are not listed without a person: " + api.Listed(others, maxShown)
	default:
		listed = append([]string{api.ClientsWatch}, own...)
	}
	if g.Why != "" {
		return g
	}
	if g.Clients = strings.Join(listed, ", "); invalid(listed) != nil {
		g.Why, g.Clients, g.Refuses = invalid(listed).Error(), "", false
	}
	return g
}

// whyWatchStays returns why watch is not taken out of a list; empty if nobody is seen whom that would refuse. own are workloads of
// the Service's namespace that refer to it and are not listed.
func whyWatchStays(own, listed []string, called Called, asked bool) string {
	switch {
	case len(own) > 0:
		return "workloads of its namespace refer to it that the list does not name: " + api.Listed(own, maxShown)
	case len(listed) == 0:
		return "the list has no entry beside " + api.ClientsWatch
	case !asked:
		return "the proxies of its pods were not asked who calls"
	}
	return called.Refuses
}

// maxShown is the number of identities that a text names.
const maxShown = 5

// invalid returns why the entries are no list; nil if they are one. A list that is not valid admits nobody.
func invalid(entries []string) error {
	_, _, err := api.Clients(withClients(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}, entries))
	return err
}

func without(list []string, entry string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return e == entry })
}

// withClients returns the Service with another list.
func withClients(svc *corev1.Service, entries []string) *corev1.Service {
	out := *svc
	out.Annotations = maps.Clone(svc.Annotations)
	out.Annotations[api.AnnotationClients] = strings.Join(entries, ",")
	return &out
}

// callersOf returns the ServiceAccounts of the workloads that refer to ports with TLS of the Service, sorted: of its own
// namespace, and of others; or why one of its own namespace that refers to it shows no identity. What others refer to is
// no reason: they could keep the list from being set for ever. Whether they call is what its proxies say.
func (a after) callersOf(k key, s *Service) (own, others []string, why string) {
	if s.moreOwn > 0 {
		return nil, nil, "it has more references than are listed"
	}
	for _, r := range s.References {
		if r.Via.Stays() || !s.secures(r.Port) {
			continue
		}
		name, foreign := r.Kind+" "+strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"), r.foreign(k.namespace)
		switch {
		case foreign:
		case !r.ofProgram():
			return nil, nil, name + " refers to it, and shows no identity"
		case r.Moves == MovesByHand:
			return nil, nil, name + " does not connect to it: " + r.ByHand
		case r.Moves == "" && !a.connects(k, r):
			return nil, nil, name + " calls " + r.Address + ", and is not known to connect: if its calls show an identity, annotate the Service yourself"
		}
		for _, id := range r.programs() {
			for _, at := range a.byID[id] {
				w := a.workloads[at]
				if account := w.Namespace + "/" + cmp.Or(w.Pod.Spec.ServiceAccountName, "default"); foreign {
					others = append(others, account)
				} else {
					own = append(own, account)
				}
			}
		}
	}
	slices.Sort(own)
	slices.Sort(others)
	return slices.Compact(own), slices.Compact(others), ""
}

// connects reports whether the proxies of all workloads with the reference make its calls already. A program that speaks
// TLS itself shows no identity of its proxy.
func (a after) connects(k key, r Reference) bool {
	ids := r.programs()
	return r.Speaks != SpeaksTLS && len(ids) > 0 && len(ids) < maxUsers && !slices.ContainsFunc(ids, func(id string) bool {
		at := a.byID[id]
		if len(at) != 1 {
			return true
		}
		w := a.workloads[at[0]]
		t := targetOf(a.choose(w, nil, []key{k}).Connect, k)
		if t == nil || closes(t, []made{{port: r.Port}}) != 0 || !slices.Contains(t.Names, r.host()) {
			return true
		}
		running := a.running[id]
		return running != nil && running.connects[t.Host()] < running.pods
	})
}

// secures reports whether a proxy serves TLS for the port, after the plan; also for a port that is not known.
func (s *Service) secures(port int32) bool {
	i := slices.IndexFunc(s.Ports, func(p Port) bool { return p.Port == port })
	if i < 0 {
		return true
	}
	_, ok := api.ParseProxyPort(s.Ports[i].Target)
	return ok || s.Ports[i].Proxy != "" || s.Ports[i].Beside != 0
}

// unguarded returns which pods of the Service have a proxy without a list, and are not replaced by the plan; empty if
// none is known.
func (a after) unguarded(k key, svc *corev1.Service) string {
	if s := a.plans[k]; s.Patch != nil || s.Way == WayRollout {
		return ""
	}
	for _, w := range a.behind(svc) {
		if r := a.running[w.Namespace+" "+w.String()]; r != nil && r.guarded < r.pods {
			return fmt.Sprintf("pods of %s have no list of clients, as they are older than the trust domain or have no proxy: roll it out first", w)
		}
	}
	return ""
}

// wait fills in when the annotation is set.
func (g *Guard) wait(s *Service, clients []Client) {
	if g.Clients == "" {
		return
	}
	before := 0
	if s.todo() && s.Way != WayMove {
		before = s.Wave
	}
	k := key{s.Namespace, s.Name}
	for _, c := range clients {
		if c.Namespace == s.Namespace && c.Wave > 0 && (slices.ContainsFunc(c.added, func(a added) bool { return a.service == k }) || slices.Contains(c.older, k)) {
			before = max(before, c.Wave)
			g.After = append(g.After, c.Namespace+"/"+c.Workload)
		}
	}
	if g.Refuses && before > 0 { // what was seen is not what will be
		g.Why, g.Clients, g.Refuses, g.After = "it has other steps first", "", false, nil
		return
	}
	g.Wave = before + 1
}
