package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// A pod has one certificate, so only Services that request the same one reach it with TLS.

// request is the annotation with which a Service requests a certificate. external: another issuer writes the
// Secret, which a second annotation tells.
type request struct {
	annotation, value string
	external          bool
}

// requestOf returns the request of the Service, or the zero value.
func requestOf(svc *corev1.Service) request {
	if api.WantsPodKeys(svc) {
		return request{api.AnnotationKeySource, string(api.KeySourcePod), api.IsExternal(svc)}
	}
	if name, ok := api.Wants(svc); ok {
		return request{api.AnnotationSecretName, name, api.IsExternal(svc)}
	}
	return request{}
}

// annotations returns the annotations of the request.
func (r request) annotations() map[string]string {
	out := map[string]string{r.annotation: r.value}
	if r.external {
		out[api.AnnotationIssuer] = string(api.IssuerExternal)
	}
	return out
}

// String returns the annotation as in a manifest.
func (r request) String() string { return r.annotation + ": " + r.value }

// secret returns the name of the Secret; empty for keys of pods.
func (r request) secret() string {
	if r.annotation == api.AnnotationSecretName {
		return r.value
	}
	return ""
}

// requests returns the existing or proposed request of each Service. For Services that select the same
// workloads, it proposes the request that one of them already has, or else a Secret named after the one
// with a ClusterIP and the shortest name. The certificate has the names of all of them, and its key is in
// no additional pods.
func requests(services []*corev1.Service, behind map[key][]Workload) map[key]request {
	sharing, out := map[string][]*corev1.Service{}, map[key]request{}
	for _, svc := range services {
		k := key{svc.Namespace, svc.Name}
		if api.HasOtherPodKeys(svc) { // its pods have that certificate without the webhook, which gives them another one too
			out[k] = requestOf(svc)
			continue
		}
		names := []string{svc.Namespace}
		for _, w := range behind[k] {
			names = append(names, w.String())
		}
		if len(names) == 1 {
			names = append(names, "", svc.Name) // it shares no pods
		}
		slices.Sort(names[1:])
		group := strings.Join(names, "\n")
		sharing[group] = append(sharing[group], svc)
	}
	for _, group := range sharing {
		first := slices.MinFunc(group, compareLeaders)
		proposed := requestOf(first)
		if proposed == (request{}) {
			proposed = request{annotation: api.AnnotationSecretName, value: first.Name + "-tls"}
		}
		for _, svc := range group {
			r := requestOf(svc)
			if r == (request{}) {
				r = proposed
			}
			out[key{svc.Namespace, svc.Name}] = r
		}
	}
	return out
}

// compareLeaders sorts Services of the same pods: the request of the first is proposed to the others.
func compareLeaders(a, b *corev1.Service) int {
	rank := func(s *corev1.Service) int {
		switch {
		case api.Asks(s):
			return 0
		case !api.IsHeadless(s):
			return 1
		}
		return 2
	}
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	if c := len(a.Name) - len(b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// withhold withdraws the proposal for a Service if all its pods would use the certificate of another
// one, as the webhook chooses it, and adds a note if some would.
func (b *Builder) withhold(services []Service, behind map[key][]Workload) {
	asking := map[string][]*Service{} // by namespace and workload
	pods := map[string]Workload{}
	for i := range services {
		s := &services[i]
		svc := b.index.services[key{s.Namespace, s.Name}].svc
		if s.Patch == nil && !api.Asks(svc) {
			continue
		}
		for _, w := range behind[key{s.Namespace, s.Name}] {
			id := s.Namespace + "/" + w.String()
			asking[id], pods[id] = append(asking[id], s), w
		}
	}
	for b.giveWay(asking, pods) {
	}
	lost := map[*Service][]loss{}
	for _, id := range slices.Sorted(maps.Keys(asking)) {
		for s, l := range b.losers(pods[id], asking[id]) {
			lost[s] = append(lost[s], l)
		}
	}
	for s, losses := range lost {
		s.withhold(losses, b.index.services[key{s.Namespace, s.Name}])
	}
}

// giveWay withdraws the proposals for Services whose certificate pods would use instead of that of a Service that
// clients are more likely to call. It reports whether it found any.
func (b *Builder) giveWay(asking map[string][]*Service, pods map[string]Workload) (found bool) {
	for _, id := range slices.Sorted(maps.Keys(asking)) {
		for {
			loser, l := b.betterLoser(pods[id], asking[id])
			if loser == nil {
				break
			}
			wins := l.to
			wins.takeBack(loss{workload: l.workload, to: loser}.String(), b.index.services[key{wins.Namespace, wins.Name}])
			for _, w := range wins.Workloads {
				shared := wins.Namespace + "/" + w
				asking[shared] = slices.DeleteFunc(asking[shared], func(s *Service) bool { return s == wins })
			}
			found = true
		}
	}
	return found
}

// betterLoser returns a Service that would lose the workload to one that clients are less likely to call and that does
// not request a certificate yet; nil if there is none.
func (b *Builder) betterLoser(w Workload, services []*Service) (*Service, loss) {
	losers := b.losers(w, services)
	for _, s := range services {
		if l, ok := losers[s]; ok && l.to != nil && !api.Asks(b.index.services[key{l.to.Namespace, l.to.Name}].svc) && b.calledRather(s, l.to) {
			return s, l
		}
	}
	return nil, loss{}
}

// calledRather reports whether clients are more likely to call a than other. A Service with a ClusterIP wins over a
// headless one, through which members of several workloads find each other.
func (b *Builder) calledRather(a, other *Service) bool {
	headless := func(s *Service) bool { return api.IsHeadless(b.index.services[key{s.Namespace, s.Name}].svc) }
	if headless(a) != headless(other) {
		return headless(other)
	}
	return len(a.Workloads) < len(other.Workloads)
}

// takeBack withdraws the proposal for the Service.
func (s *Service) takeBack(why string, e *entry) {
	for i := range s.Ports {
		if p := &s.Ports[i]; p.Proxy != "" || p.annotate {
			p.Proxy, p.ProxyNot, p.annotate = "", why, false
		}
	}
	s.conclude(e)
}

// loss is a workload whose pods use another certificate than the Service's.
type loss struct {
	workload string
	to       *Service // the Service whose certificate they use; nil if they name a Secret themselves
	secret   string   // the Secret that they name
}

// String returns the cause and the remedy.
func (l loss) String() string {
	if l.to == nil {
		return fmt.Sprintf("the pods of %s name Secret %s themselves (annotation %s): remove the annotation, or set it on the Service too", l.workload, l.secret, api.AnnotationSecretName)
	}
	why := fmt.Sprintf("the pods of %s use the certificate of Service %s, which selects them too: set %s on both Services", l.workload, l.to.Name, l.to.request)
	if podKeys := (request{annotation: api.AnnotationKeySource, value: string(api.KeySourcePod)}); l.to.request.annotation != podKeys.annotation {
		why += ", or " + podKeys.String()
	}
	return why
}

// losers returns the Services whose certificate the workload's pods will not use, and the certificate that they
// use instead.
func (b *Builder) losers(w Workload, services []*Service) map[*Service]loss {
	var asking []*corev1.Service
	for _, s := range services {
		asking = append(asking, s.Patch.applied(b.index.services[key{s.Namespace, s.Name}].svc))
	}
	podRequest, _ := api.ParsePod(&w.Pod.ObjectMeta) // doctor and analyze report errors
	choice := choose.Secret(w.Pod, podRequest, b.known(w.Namespace, asking...))
	taken := loss{workload: w.String(), secret: choice.Secret}
	i := slices.IndexFunc(services, func(s *Service) bool { return s.Name == choice.Service })
	if i >= 0 {
		taken.to = services[i]
	} else if choice.By != choose.ByPod {
		return nil
	}
	out := map[*Service]loss{}
	for _, s := range services {
		if i < 0 || s.request != services[i].request {
			out[s] = taken
		}
	}
	return out
}

// withhold withdraws the proposal for the Service if none of its pods would use its certificate.
func (s *Service) withhold(losses []loss, e *entry) {
	if s.Patch == nil {
		return // it already has a request: condition Serving and the webhook's notes report the loss
	}
	why := losses[0].String()
	for _, l := range losses {
		s.lacks(l.workload)
	}
	if len(losses) == len(s.Workloads) {
		s.takeBack(why, e)
		return
	}
	for i := range s.Ports {
		if p := &s.Ports[i]; p.Proxy != "" {
			p.Notes = append(p.Notes, why)
		}
	}
}
