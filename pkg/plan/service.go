package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Plan returns the plan of all Services.
func (b *Builder) Plan() Plan {
	p := Plan{Services: []Service{}, Unread: b.unread, Totals: Totals{Ways: map[Way]int{}}}
	edges := newGraph()
	var services []*corev1.Service
	behind := map[key][]Workload{}
	for _, k := range slices.SortedFunc(maps.Keys(b.index.services), compareKeys) {
		svc := b.index.services[k].svc
		services, behind[k] = append(services, svc), b.behind(svc)
	}
	asked := requests(services, behind)
	for _, svc := range services {
		k := key{svc.Namespace, svc.Name}
		p.Services = append(p.Services, b.service(b.index.services[k], behind[k], asked[k]))
	}
	b.withhold(p.Services, behind)
	for _, s := range p.Services {
		k := key{s.Namespace, s.Name}
		edges.add(k, s, behind[k])
	}
	edges.order(p.Services)
	then := b.after(p.Services)
	p.Clients = then.clients()
	then.guards(p.Clients)
	for i := range p.Services {
		s := &p.Services[i]
		in, known := b.optedIn(s.Namespace)
		s.steps(in && known)
		p.Totals.add(*s)
	}
	slices.SortStableFunc(p.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(last(a.Wave), last(b.Wave)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return p
}

func (t *Totals) add(s Service) {
	t.Services++
	t.Ways[s.Way]++
	t.References += s.ToMove
	t.Programs += s.Programs
	t.Connect += s.Connect
}

// last sorts Services without a wave after the others.
func last(wave int) int {
	if wave == 0 {
		return 1 << 30
	}
	return wave
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// service returns the plan of one Service, without its steps and its wave.
func (b *Builder) service(e *entry, workloads []Workload, asked request) Service {
	svc := e.svc
	s := Service{Namespace: svc.Namespace, Name: svc.Name, Ports: []Port{}, request: asked, content: b.contents[key{svc.Namespace, svc.Name}]}
	b.see(&s, svc)
	s.ManagedBy = managedBy(svc.Annotations, svc.Labels)
	for _, w := range workloads {
		s.Workloads = append(s.Workloads, w.String())
	}
	for _, p := range svc.Spec.Ports {
		port, inside := b.port(svc, p, workloads)
		b.compare(&s, &port, api.TargetPort(p))
		for _, r := range inside {
			r.Port = p.Port
			e.add(r)
		}
		s.Ports = append(s.Ports, port)
		for _, w := range port.without {
			s.lacks(w)
		}
	}
	s.besides()
	b.refer(&s, e)
	s.conclude(e)
	return s
}

// lacks records a workload whose pods do not use the Service's certificate.
func (s *Service) lacks(workload string) {
	if !slices.Contains(s.Without, workload) {
		s.Without = append(s.Without, workload)
	}
}

// managedBy returns the GitOps tool that manages an object with these annotations and labels, or "".
func managedBy(annotations, labels map[string]string) string {
	switch {
	case annotations["argocd.argoproj.io/tracking-id"] != "", labels["argocd.argoproj.io/instance"] != "":
		return "Argo CD"
	case labels["kustomize.toolkit.fluxcd.io/name"] != "", labels["helm.toolkit.fluxcd.io/name"] != "":
		return "Flux"
	}
	return ""
}

// conclude fills in the way, the patch, the Secret, and the number of references to move.
func (s *Service) conclude(e *entry) {
	s.Way, s.Why, s.Patch, s.Secret = "", "", nil, ""
	s.choose(e.svc)
	if s.Way == WayPort || s.Way == WayNative {
		s.Patch = patchOf(e.svc, s)
	}
	s.asks = api.Asks(e.svc)
	if s.Patch != nil || s.asks {
		s.Secret = s.request.secret()
	}
	s.ToMove = e.toMove
	for _, r := range s.References {
		if s.counts(r) {
			s.ToMove++
		}
	}
}

// counts reports whether the reference has to become TLS before plaintext is removed.
func (s *Service) counts(r Reference) bool {
	i := slices.IndexFunc(s.Ports, func(p Port) bool { return p.Port == r.Port })
	return r.mustMove() && (i < 0 || s.Ports[i].Today == TodayPlaintext && s.Ports[i].ProxyNot == "")
}

// besides finds the ports whose program has TLS at another port of the Service.
func (s *Service) besides() {
	for i := range s.Ports {
		p := &s.Ports[i]
		for _, other := range s.Ports {
			asked, ok := api.ParseProxyPort(other.Target)
			if p.Today != TodayPlaintext || !ok {
				continue
			}
			own, _ := api.ParseProxyPort(p.Proxy)
			if asked.Upstream == p.Target || asked.Upstream == own.Upstream {
				p.Beside, p.Proxy = other.Port, ""
			}
		}
	}
}

// refer fills in the references to the Service.
func (b *Builder) refer(s *Service, e *entry) {
	id := s.Namespace + "/" + s.Name
	s.MoreReferences, s.moreOwn = e.more, e.moreOwn
	for _, r := range e.references {
		if r.Via == ViaConfigMap {
			r.UsedBy = b.users[key{r.Namespace, r.Name}]
		}
		i := slices.IndexFunc(s.Ports, func(p Port) bool { return p.Port == r.Port })
		if r.Via == ViaRoute && r.Speaks == SpeaksPlaintext && r.Kind != "Route" &&
			(b.secured[id] || i >= 0 && b.secured[id+":"+s.Ports[i].Name]) {
			r.Speaks = SpeaksTLS
		}
		s.References = append(s.References, r)
	}
	slices.SortStableFunc(s.References, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Where, b.Where))
	})
	for i := range s.Ports { // callers that would fail if the program served TLS itself
		if n := s.Ports[i].Native; n != nil && s.Ports[i].Today == TodayPlaintext {
			n.addBreaks(s.References, s.Ports[i].Port)
		}
	}
}

// urgency sorts references: those that must change come first.
func urgency(r Reference) int {
	switch {
	case r.mustMove():
		return 0
	case r.Speaks == SpeaksUnknown:
		return 1
	case r.Speaks == SpeaksPlaintext:
		return 2
	}
	return 3
}

// addBreaks adds the callers that would fail, except probes, which the webhook changes to HTTPS.
func (n *Native) addBreaks(references []Reference, port int32) {
	count := 0
	for _, r := range references {
		if r.Speaks == SpeaksPlaintext && r.Port == port && r.Via != ViaProbe {
			count++
		}
	}
	if count > 0 {
		n.Breaks = append(n.Breaks, api.Count(count, "plaintext reference"))
	}
}

// choose fills in Way and Why.
func (s *Service) choose(svc *corev1.Service) {
	is := func(f func(Port) bool) bool { return slices.ContainsFunc(s.Ports, f) }
	switch {
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		s.Way, s.Why = WayNone, "it is an alias of "+svc.Spec.ExternalName
	case is(refused): // first: a rollout would wait for endpoints that this port cannot get
		s.Way, s.Why = WayCheck, s.evidence(TodayAsked)
	case is(func(p Port) bool { return p.Proxy != "" }):
		s.Way = WayPort
	case is(func(p Port) bool { return p.annotate }):
		s.Way = WayNative
	case is(func(p Port) bool { return p.rollOut }):
		s.Way, s.Why = WayRollout, s.evidence(TodayAsked)
	case is(func(p Port) bool { return p.Today == TodayAsked }):
		s.Way, s.Why = WayNone, s.evidence(TodayAsked)
	case is(func(p Port) bool { return p.Beside != 0 || p.Today == TodayAny }):
		s.Way = WayMove
	case !api.Asks(svc) && is(func(p Port) bool { return p.Today == TodayDeclared && p.Native != nil && p.Native.Possible }):
		s.Way = WayNative
	case is(plaintext):
		s.Way, s.Why = WayNone, s.noProxyCause()
	case is(func(p Port) bool { return p.Today == TodayDeclared }):
		s.Way, s.Why = WayCheck, s.evidence(TodayDeclared)
	case is(func(p Port) bool { return p.Today.Secure() }):
		s.Way = WayDone
	default:
		s.Way, s.Why = WayNone, s.noProxyCause()
	}
}

// plaintext reports whether nothing indicates that the TCP port serves TLS.
func plaintext(p Port) bool {
	return p.Protocol == "TCP" && !p.Today.Secure() && p.Today != TodayDeclared
}

// refused reports whether the webhook refuses the proxy that the port requests.
func refused(p Port) bool { return p.refused }

// noProxyCause returns why its ports get no proxy.
func (s *Service) noProxyCause() string {
	if len(s.Ports) == 0 {
		return "it has no ports"
	}
	var why []string
	for _, p := range s.Ports {
		if p.ProxyNot != "" {
			why = appendNew(why, p.ProxyNot)
		}
	}
	return strings.Join(why, "; ")
}

// evidence returns Port.By of the ports with this protocol.
func (s *Service) evidence(today Today) string {
	var out []string
	for _, p := range s.Ports {
		if p.Today == today {
			out = append(out, fmt.Sprintf("port %d: %s", p.Port, p.By))
		}
	}
	return strings.Join(out, "; ")
}
