package sidecar

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// firstPort is the first of the proxy's ports: it is the administration port, and those of the
// Services follow. It is fixed, because a NetworkPolicy may have to name it. It is above the
// ports of the system and of common programs and meshes, and below 30000: node ports start
// there, and ephemeral ports at 32768, one of which could be in use when the proxy starts.
const firstPort = 15443

// FirstPort is where the proxy of a pod listens for the first port of its Services, if no container declares it.
const FirstPort = firstPort + 1

// Reserved returns the ports on which the pod's proxy serves, or may, which are not for Services to which it connects:
// those of a new one would be others, and those of an existing one would be taken.
func Reserved(pod *corev1.Pod) (ports []int32) {
	for n := range int32(api.MaxProxyPorts + 1) { // the first is the administration port
		ports = append(ports, firstPort+n)
	}
	proxy, _, exists := proxyOf(pod)
	if exists && proxy.Admin != 0 {
		ports = append(ports, proxy.Admin)
	}
	for _, l := range proxy.Listeners {
		ports = append(ports, l.Port)
	}
	return ports
}

// listeners returns the listeners of the proxy, and why it does not listen on other ports. An
// existing proxy keeps its listeners.
func (w Wanted) listeners(proxy api.Proxy) (out []api.ProxyListener, notes []reasons.Note) {
	var refused []refusedPorts
	next := w.freePorts(proxy)
	if proxy.Container == nil {
		next() // the administration port
	}
	have := len(proxy.Listeners)
	for _, p := range w.Ports {
		i := slices.IndexFunc(proxy.Listeners, func(l api.ProxyListener) bool { return l.Name == p.Name() })
		upstream, reason := int32(0), reasons.ProxyTooManyPorts
		if i >= 0 || len(out) < api.MaxProxyPorts { // upstreamOf looks at the whole pod
			upstream, reason = w.upstreamOf(p.ProxyPort)
		}
		if reason == "" && i < 0 && have == api.MaxProxyPorts { // a copied pod may have others
			reason = reasons.ProxyTooManyPorts
		}
		if reason != "" {
			if i := slices.IndexFunc(refused, func(r refusedPorts) bool { return r.reason == reason }); i >= 0 {
				refused[i].names = append(refused[i].names, p.Name())
			} else {
				refused = append(refused, refusedPorts{reason, []string{p.Name()}})
			}
			continue
		}
		l := api.ProxyListener{Name: p.Name(), Upstream: upstream, H2: p.H2, V2: slices.Contains(w.ProxyProtocol, upstream)}
		if i >= 0 {
			l = proxy.Listeners[i]
		} else {
			have++
		}
		out = append(out, l)
	}
	for _, l := range unnumbered(out) {
		l.Port = next()
	}
	for _, r := range refused {
		notes = append(notes, reasons.Note{Reason: r.reason, Detail: reasons.List(r.names), Ports: r.names})
	}
	return out, notes
}

// unnumbered returns the listeners without a port, in the order in which they get one: those for TLS alone first, each
// kind by name. A NetworkPolicy may name a number, so it must change neither when Services are written in another order,
// nor when a port that also accepts plaintext comes and goes.
func unnumbered(all []api.ProxyListener) []*api.ProxyListener {
	var out []*api.ProxyListener
	for i := range all {
		if all[i].Port == 0 {
			out = append(out, &all[i])
		}
	}
	plaintext := func(l *api.ProxyListener) int {
		if p, ok := api.ParseProxyPort(l.Name); ok && p.Plaintext {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b *api.ProxyListener) int {
		return cmp.Or(plaintext(a)-plaintext(b), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// refusedPorts are ports for which there is no proxy, for one reason.
type refusedPorts struct {
	reason reasons.Reason
	names  []string
}

// freePorts returns a function that returns successive port numbers that no container declares
// and no listener forwards to.
func (w Wanted) freePorts(proxy api.Proxy) func() int32 {
	taken := map[int32]bool{}
	for _, list := range [][]corev1.Container{w.Bare.Spec.InitContainers, w.Bare.Spec.Containers} {
		for i := range list {
			for _, p := range list[i].Ports {
				taken[p.ContainerPort] = true
			}
		}
	}
	for _, p := range w.Ports {
		taken[p.UpstreamPort().IntVal] = true
	}
	for _, t := range w.Own {
		taken[t.IntVal] = true
	}
	for _, t := range w.Connect { // the proxy listens on all addresses of a port, or on one
		for _, p := range t.Ports {
			taken[p.Port] = true
		}
	}
	for _, l := range proxy.Listeners {
		taken[l.Port] = true
	}
	if proxy.Container != nil {
		taken[proxy.Admin] = true
	}
	port := int32(firstPort - 1)
	return func() int32 {
		for port++; taken[port]; port++ {
		}
		return port
	}
}

// upstreamOf returns the number of the program's port to which the proxy forwards, or why there
// is none.
func (w Wanted) upstreamOf(p api.ProxyPort) (int32, reasons.Reason) {
	name, target := p.Name(), p.UpstreamPort()
	var ofTCP, ofOther int32
	for _, c := range api.RunningContainers(w.Bare) {
		for _, port := range c.Ports {
			if port.Name == name { // with TCP it would not request a proxy
				return 0, reasons.ProxyNotTCP
			}
			if !leadsTo(target, port) {
				continue
			}
			if cmp.Or(port.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				ofTCP = cmp.Or(ofTCP, port.ContainerPort)
			} else {
				ofOther = port.ContainerPort
			}
		}
	}
	switch number := cmp.Or(ofTCP, target.IntVal); {
	case ofTCP == 0 && ofOther != 0:
		return 0, reasons.ProxyNotTCP
	case number == 0, ofTCP == 0 && api.OneShot(w.Bare):
		return 0, reasons.ProxyNoUpstream
	case w.ServesTLS(number):
		return 0, reasons.ProxyUpstreamTLS
	default:
		return number, ""
	}
}

func leadsTo(target intstr.IntOrString, port corev1.ContainerPort) bool {
	if target.Type == intstr.Int {
		return target.IntVal == port.ContainerPort
	}
	return target.StrVal == port.Name
}
