package serving

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// maxPorts bounds how many ports of a pod are dialled.
const maxPorts = 16

// endpoint is where the pods of one template are dialled.
type endpoint struct {
	ports []uint16 // sorted; none if no TCP port is known
	// protocols say what comes before TLS at those ports where something is known to.
	protocols words
	// name is what is asked for (SNI).
	name string
	// services are those whose concern the pods are, oldest first.
	services []*corev1.Service
	// audience are their UIDs: pods of several templates may have the same.
	audience string
	// demanded are the names that the certificate of a pod with a key of its own must have
	// at each port, sorted and separated by commas.
	demanded map[uint16]string
}

// endpointOf returns how the pods of a template are reached that mount the Secret, or mirror
// static pods. services have a part in the Secret, oldest first.
//
// The Services that select a pod know its ports, and where to find them by name.
// If none does, one without a selector may have endpoints that are written by hand.
// Otherwise the containers that mount the Secret may declare ports. Mirror pods are nobody's
// concern whom no Service selects.
func endpointOf(t pods.Template, secret string, services []*corev1.Service) *endpoint {
	if len(services) == 0 {
		return &endpoint{}
	}
	known := t.TCPPorts()
	set := labels.Set(t.LabelSet())
	var selecting, open []*corev1.Service
	for _, svc := range services {
		switch {
		case api.CheckSize(svc) != nil: // which pods it selects is not known
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
		if len(candidates) > 0 {
			said := words{}
			return newEndpoint(targetsOf(candidates, known, api.ReachOf(t.Pod()), said), candidates, said.or(t))
		}
	}
	said := words{}
	for _, p := range known {
		said.say(p.Number, starttls.OfPort(p.Name))
	}
	return newEndpoint(declaredPorts(known, secret), services, said.or(t))
}

// words are what comes before TLS, by port.
type words map[uint16]starttls.Protocol

// say adds what comes before TLS at a port, unless that is said already.
func (w words) say(port uint16, p starttls.Protocol) {
	if w[port] == "" && p != "" {
		w[port] = p
	}
}

// or adds what the pods' programs are known to speak.
func (w words) or(t pods.Template) words {
	for port, p := range t.Protocols() {
		w.say(port, p)
	}
	return w
}

func newEndpoint(ports []uint16, services []*corev1.Service, protocols words) *endpoint {
	slices.Sort(ports)
	ports = slices.Compact(ports)
	var audience strings.Builder
	for _, svc := range services {
		audience.WriteString(string(svc.UID) + ",")
	}
	return &endpoint{ports: ports[:min(len(ports), maxPorts)], name: hostname(services[0]), services: services, audience: audience.String(), protocols: protocols}
}

func hostname(svc *corev1.Service) string { return api.ServiceDomains(svc, "")[0] }

// targetsOf resolves the target ports of the Services that are dialled, and adds to said what
// comes before TLS there. Those whose traffic cannot reach the pod are passed over: for the webhook
// it does not serve them.
func targetsOf(services []*corev1.Service, known []pods.Port, reach api.Reach, said words) []uint16 {
	var ports []uint16
	named := map[string][]uint16{}
	for _, p := range known {
		named[p.Name] = append(named[p.Name], p.Number)
	}
	seen := map[api.ProbeTarget]bool{}
	for _, svc := range services {
		for _, asked := range api.ProbeTargets(svc) {
			asked.Port = 0
			if seen[asked] {
				continue
			}
			seen[asked] = true
			its := named[asked.Target.StrVal]
			if n := asked.Target.IntVal; asked.Target.Type == intstr.Int {
				its = nil
				if n > 0 && n < 1<<16 && reach.Port(asked.Target) {
					its = []uint16{uint16(n)}
				}
			}
			for _, port := range its {
				ports = append(ports, port)
				said.say(port, asked.Protocol)
			}
		}
	}
	return ports
}

// declaredPorts returns the ports of the containers that mount the Secret: those
// whose name or number stands for TLS, or all if there are none.
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
