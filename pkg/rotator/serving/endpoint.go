package serving

import (
	"crypto/sha256"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// endpoint is where the pods of one template are dialled.
type endpoint struct {
	ports []uint16 // sorted; none if no TCP port is known
	// answers is the number of answers that are kept of each pod (probe.Shares).
	answers int
	// sets has the alternative ports of each need of a Service: one port of a set has to serve. A
	// set is empty if none of its ports is dialled (probe.Shares).
	sets [][]uint16
	// cut are the indexes of the sets of which ports are left out: one of these may serve.
	cut map[int]bool
	// unasked are the indexes of the sets that only needs of unasked Services have.
	unasked map[int]bool
	// met has the needs for which the pods have ports, with the index of the set; or noSet if none
	// is dialled. The pods cannot meet a missing need.
	met map[need]int
	// protocols are the STARTTLS protocols of the ports.
	protocols startTLS
	// name is the server name to request (SNI).
	name string
	// services are those to which the pods belong, oldest first.
	services []*corev1.Service
	// stray: none of the services selects the pods. They are dialled, but affect no condition.
	stray bool
	// beyond are the Services that belong to the pods, too, but are not considered (maxTargets).
	beyond []*corev1.Service
	// audience is a hash of the UIDs of the services, the ports that each uses, and how many are dialled, for comparison:
	// pods of several templates may have the same.
	audience string
	// guarded are the ports of those Services that list their clients, and proxied the names of those whose proxy reads whom it
	// admits. wanted are the lists that the Services ask, by that name, and lists those of the pods.
	guarded map[uint16]bool
	proxied map[uint16]string
	wanted  map[string]string
	lists   map[string]podList
	// demanded is what the certificate of a pod with its own key must be at each port, with sorted names.
	demanded map[uint16]probe.Demand
}

// isUnasked reports whether nobody asks the Service's pods to serve TLS: it no longer requests the certificate that is kept
// for it, and marks no port as TLS. They may serve the certificate, such as a program that takes it itself.
func isUnasked(svc *corev1.Service) bool {
	return !api.Asks(svc) && !slices.ContainsFunc(api.ProbeTargets(svc), func(t api.ProbeTarget) bool { return t.Named })
}

// need is one of api.Needs of a Service.
type need struct {
	service types.UID
	ports   string // api.Need.String
}

// noSet marks a need for which nothing is dialled.
const noSet = -1

// maxTargets bounds what is considered of the Services of one pod: the ports that may serve TLS, which are at
// least as many as the needs, and the names that certificates must have. A namespace may have thousands of pods whose
// templates differ, and the work is done for each template. The oldest Services are considered.
const maxTargets = 256

// endpointOf returns how to reach the pods of a template that mount the Secret or mirror static
// pods. services have a part in the Secret, oldest first.
//
// The Services that select a pod determine its ports. If none does, one without a selector may have
// endpoints that are written by hand. Otherwise, the ports are those declared by the containers
// that mount the Secret. Mirror pods without a Service are not relevant.
func endpointOf(t pods.Template, secret string, services []*corev1.Service) *endpoint {
	if len(services) == 0 {
		return &endpoint{}
	}
	set := labels.Set(t.LabelSet())
	var selecting, open []*corev1.Service
	for _, svc := range services {
		switch {
		case api.CheckSize(svc) != nil: // its selector was not read
		case len(svc.Spec.Selector) == 0:
			open = append(open, svc)
		case labels.SelectorFromSet(svc.Spec.Selector).Matches(set):
			selecting = append(selecting, svc)
		}
	}
	if t.Mirror() && len(selecting) == 0 {
		return &endpoint{}
	}
	for _, candidates := range [][]*corev1.Service{selecting, open} {
		if len(candidates) == 0 {
			continue
		}
		b, n := newBuilder(t), 0
		for ; n < len(candidates) && !b.full(); n++ {
			b.add(candidates[n])
		}
		at := b.endpoint(candidates[:n])
		at.beyond = candidates[n:]
		return at
	}
	b := newBuilder(t)
	for _, p := range b.known {
		b.startTLS.add(p.Number, starttls.OfPort(p.Name))
	}
	b.ports = declaredPorts(b.known, secret)
	at := b.endpoint(services)
	at.stray, at.sets = true, [][]uint16{at.ports}
	return at
}

// startTLS maps a port to its STARTTLS protocol.
type startTLS map[uint16]starttls.Protocol

// add sets the protocol of a port that has none.
func (s startTLS) add(port uint16, p starttls.Protocol) {
	if s[port] == "" && p != "" {
		s[port] = p
	}
}

// or adds the protocols that are known from the pods' template.
func (s startTLS) or(t pods.Template) startTLS {
	for port, p := range t.Protocols() {
		s.add(port, p)
	}
	return s
}

// builder collects the ports that Services need in the pods of a template.
type builder struct {
	template pods.Template
	known    []pods.Port
	named    map[string][]uint16
	reach    api.Reach
	startTLS startTLS
	unasked  map[types.UID]bool // of the Services
	ports    []uint16
	order    []need
	met      map[need][]uint16 // by need; nil if the port only has to be declared
	targets  int               // as maxTargets counts them
	guarded  map[uint16]bool   // of Services that list their clients
}

// full reports whether no further Service is considered.
func (b *builder) full() bool { return b.targets >= maxTargets }

func newBuilder(t pods.Template) *builder {
	b := &builder{template: t, known: t.TCPPorts(), named: map[string][]uint16{}, reach: api.ReachOf(t.Pod()), startTLS: startTLS{}, unasked: map[types.UID]bool{}, met: map[need][]uint16{}, guarded: map[uint16]bool{}}
	for _, p := range b.known {
		b.named[p.Name] = append(b.named[p.Name], p.Number)
	}
	return b
}

// add adds the needs of a Service, and returns the ports that are dialled for it.
func (b *builder) add(svc *corev1.Service) []uint16 {
	var all []uint16
	b.unasked[svc.UID] = isUnasked(svc)
	for _, n := range api.Needs(svc) {
		b.targets += max(1, len(n.Targets))
		var its []uint16
		for _, target := range n.Targets {
			found := b.find(target.Target)
			for _, port := range found {
				b.startTLS.add(port, target.Protocol)
			}
			its = append(its, found...)
		}
		if len(its) == 0 {
			continue
		}
		key := need{svc.UID, n.String()}
		b.order = append(b.order, key)
		if n.Declared {
			b.met[key] = nil
			continue
		}
		b.met[key], all = its, append(all, its...)
	}
	b.ports = append(b.ports, all...)
	if api.Guards(svc) {
		for _, port := range all {
			b.guarded[port] = true
		}
	}
	return all
}

// find returns the ports of a targetPort; none if its traffic cannot reach the pod, as the webhook
// decides.
func (b *builder) find(target intstr.IntOrString) []uint16 {
	if target.Type == intstr.String {
		return b.named[target.StrVal]
	}
	if n := target.IntVal; n > 0 && n < 1<<16 && b.reach.Port(target) {
		return []uint16{uint16(n)}
	}
	return nil
}

// endpoint returns the endpoint for the services.
func (b *builder) endpoint(services []*corev1.Service) *endpoint {
	at := &endpoint{name: hostname(services[0]), services: services, protocols: b.startTLS.or(b.template), cut: map[int]bool{}, unasked: map[int]bool{}, met: make(map[need]int, len(b.met)), guarded: b.guarded, proxied: proxied(b.template)}
	slices.Sort(b.ports)
	at.ports = slices.Compact(b.ports)
	dialled, answers := probe.Shares(b.template.CountKeys())
	at.ports, at.answers = at.ports[:min(len(at.ports), dialled)], answers
	audience := sha256.New()
	fmt.Fprintf(audience, "%d,", dialled)
	for _, svc := range services {
		fmt.Fprintf(audience, "%s,", svc.UID)
	}
	for _, n := range b.order {
		at.met[n] = at.set(b.met[n], b.unasked[n.service])
		fmt.Fprintf(audience, "%s:%s=%v,", n.service, n.ports, b.met[n])
	}
	at.audience = string(audience.Sum(nil))
	return at
}

// set returns the index of the set of the dialled ones among the ports. It is added if there is none.
func (at *endpoint) set(ports []uint16, unasked bool) int {
	if ports == nil {
		return noSet
	}
	var dialled []uint16
	for _, port := range at.ports {
		if slices.Contains(ports, port) {
			dialled = append(dialled, port)
		}
	}
	cut := slices.ContainsFunc(ports, func(port uint16) bool { return !slices.Contains(dialled, port) })
	i := 0
	for i < len(at.sets) && (at.cut[i] != cut || !slices.Equal(at.sets[i], dialled)) {
		i++
	}
	if i == len(at.sets) {
		at.sets = append(at.sets, dialled)
		at.cut[i], at.unasked[i] = cut, true
	}
	at.unasked[i] = at.unasked[i] && unasked
	return i
}

func hostname(svc *corev1.Service) string { return api.ServiceDomains(svc, "")[0] }

// declaredPorts returns the ports of the containers that mount the Secret: those whose name or
// number indicates TLS, or all if none does.
func declaredPorts(known []pods.Port, secret string) []uint16 {
	var all, secure []uint16
	for _, p := range known {
		if !slices.Contains(p.Secrets, secret) {
			continue
		}
		all = append(all, p.Number)
		if api.PortSaysTLS(p.Name, int32(p.Number)) {
			secure = append(secure, p.Number)
		}
	}
	if len(secure) > 0 {
		return secure
	}
	return all
}
