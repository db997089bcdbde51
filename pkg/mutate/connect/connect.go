// Package connect decides which calls of a pod's programs its proxy makes for them, over TLS
// ([api.AnnotationConnect]). Each Service gets a loopback address of its own in the pod: the pod's
// hosts file sends the names of the Service there, and the proxy listens on the numbers of the
// Service's ports. It is pure.
//
//	targets, left := connect.Targets(pod, entries, services, "cluster.local")
package connect

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// A Target is a Service whose calls go through the pod's proxy.
type Target struct {
	Service, Namespace string
	// Address is the loopback address of the Service in the pod.
	Address string
	// Names are the names of the Service in the hosts file.
	Names []string
	Ports []Port
}

// Port is a port of a Target.
type Port struct {
	// Port is the number that programs call, and TLS the number of the Service's port for TLS.
	// They are the same for a port that accepts TLS.
	Port, TLS int32
	Protocol  api.ConnectProtocol
}

// Host returns the name by which the proxy resolves and verifies the Service.
func (t Target) Host() string { return t.Service + "." + t.Namespace + ".svc" }

// Left is a Service that is left out, and why.
type Left struct {
	Service, Why string
	// Doubt is true if the Service is listed, and may have been corrected since what is known of it.
	Doubt bool
}

// wish is a Service that a pod wants to connect to.
type wish struct {
	service, namespace string
	ports              []int32 // those that are listed
	all                bool    // all ports
	listed             bool    // not only by "*"
	foreign            bool    // of another namespace than the pod
}

// Client is the pod whose proxy connects.
type Client struct {
	Pod       *corev1.Pod // without its proxy
	Namespace string      // that of the Pod may be empty
	// Used are further ports on which programs of the pod listen, and Proxy those on which its proxy
	// serves, or may.
	Used, Proxy   []int32
	ClusterDomain string
}

// Targets returns the Services of the entries that the client's proxy connects to, and those that are
// left out. services are those of the pod's namespace and of the namespaces that the entries name, in
// any order; those that request no certificate may be missing. Their namespace may be empty for that
// of the pod.
//
// What exceeds a bound is left out: "*" before what is listed, and what is listed of other namespaces
// before that of the pod's own, which others cannot change. Among these, the ones without
// ports come first, because their owners choose how many ports they have.
func Targets(c Client, entries []api.Connect, services []*corev1.Service) ([]Target, []Left) {
	byName := make(map[[2]string]*corev1.Service, len(services))
	for _, svc := range services {
		if api.Asks(svc) {
			byName[[2]string{svc.Name, cmp.Or(svc.Namespace, c.Namespace)}] = svc
		}
	}
	in := of(c)
	var targets []Target
	var left []Left
	ports := 0
	wishes := wishesOf(c, entries, services)
	if len(wishes) > maxWishes {
		wishes = wishes[:maxWishes]
		left = append(left, Left{Service: api.ConnectAll, Why: fmt.Sprintf("more than %d Services of the namespace request a certificate: list those that are meant", maxWishes)})
	}
	for _, w := range wishes {
		name, svc := w.service+"."+w.namespace, byName[[2]string{w.service, w.namespace}]
		t, why, doubt := Target{}, "", false
		switch {
		case len(targets) == api.MaxConnects:
			why = fmt.Sprintf("more than %d Services are listed: list fewer", api.MaxConnects)
		case ports == api.MaxConnectPorts:
			why = tooManyPorts
		default:
			t, why = w.target(in, svc)
			doubt = w.listed && svc != nil && !in.ownHosts
		}
		if why == "" {
			t.Address = api.ConnectAddress(len(targets) + 1).String()
			if onlyIPv6(svc) {
				t.Address = netip.IPv6Loopback().String()
			}
			t.Names = namesOf(w.service, w.namespace, c.Namespace, c.ClusterDomain)
			why = in.refuse(t, targets, ports)
		}
		if why != "" {
			left = append(left, Left{name, why, doubt && t.Address == ""})
			continue
		}
		ports += len(t.Ports)
		targets = append(targets, t)
	}
	return targets, left
}

// maxWishes bounds the Services that are examined.
const maxWishes = 4 * api.MaxConnects

// mostUnlisted bounds the ports of a Service that is not listed, or that others own if its ports are not listed.
const mostUnlisted = 32

var tooManyPorts = fmt.Sprintf("the Services have more than %d ports together: list fewer", api.MaxConnectPorts)

// refuse returns why a target has no place beside the others, which have so many ports; "" if it has.
func (in inPod) refuse(t Target, others []Target, ports int) string {
	if ports+len(t.Ports) > api.MaxConnectPorts {
		return tooManyPorts
	}
	if slices.Contains(t.Names, in.hostname) || slices.Contains(ownNames, t.Names[0]) {
		return fmt.Sprintf("in the pod, %s means the pod itself: give the Service another name", t.Names[0])
	}
	if own := in.aliasOf(t.Names); own != "" {
		return fmt.Sprintf("hostAliases of the pod have the name %s already: remove it there", own)
	}
	if lineOf(t, others) > maxLine {
		return fmt.Sprintf("the line of %s in the hosts file would have more than %d bytes, of which programs with musl read no more: list fewer Services without an IPv4 address, or use shorter names", t.Address, maxLine)
	}
	if other := sharing(t, others); other != "" {
		return fmt.Sprintf("a port of it is one of %s too, and IPv6 has one loopback address: list only one of them, or give one another port", other)
	}
	return ""
}

// maxLine is how much musl reads of a line of the hosts file. Its programs ask DNS for the names behind that, and
// the call would leave in plaintext.
const maxLine = 511

// lineOf returns the length of the line of a target's address in the hosts file, which the kubelet writes, with the
// names of the others that have the address.
func lineOf(t Target, others []Target) int {
	n := len(t.Address) + len("\n")
	for _, other := range slices.Concat(others, []Target{t}) {
		if other.Address == t.Address {
			for _, name := range other.Names {
				n += len("\t") + len(name)
			}
		}
	}
	return n
}

// wishesOf returns the Services of the entries, each once: those of the pod's namespace that are
// listed, those of others with their ports, those of others, and those of "*", each by namespace and name.
func wishesOf(c Client, entries []api.Connect, services []*corev1.Service) []wish {
	pod, namespace := c.Pod, c.Namespace
	var out []wish
	at := map[[2]string]int{}
	add := func(namespace, service string, port int32, listed bool) {
		i, have := at[[2]string{namespace, service}]
		if !have {
			i = len(out)
			at[[2]string{namespace, service}] = i
			out = append(out, wish{service: service, namespace: namespace, listed: listed, foreign: namespace != c.Namespace})
		}
		if out[i].ports = append(out[i].ports, port); port == 0 {
			out[i].all = true
		}
	}
	all := false
	for _, e := range entries {
		if e == (api.Connect{}) {
			all = true
			continue
		}
		add(cmp.Or(e.Namespace, namespace), e.Service, e.Port, true)
	}
	if all {
		for _, svc := range services {
			of := cmp.Or(svc.Namespace, namespace)
			_, listed := at[[2]string{of, svc.Name}]
			if of == namespace && !listed && api.Asks(svc) && !api.Selects(svc, pod) {
				add(namespace, svc.Name, 0, false)
			}
		}
	}
	rank := func(w wish) int {
		switch {
		case !w.listed:
			return 3
		case w.foreign && w.all:
			return 2
		case w.foreign:
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b wish) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.service, b.service))
	})
	return out
}

// namesOf returns the names by which the programs of a pod call a Service: those that the search
// list of the pod's resolv.conf completes, and the whole one.
func namesOf(service, namespace, of, clusterDomain string) []string {
	var names []string
	if namespace == of {
		names = append(names, service)
	}
	short := service + "." + namespace
	return append(names, short, short+".svc", short+".svc."+clusterDomain)
}

// onlyIPv6 reports whether the Service, and therefore the pod, may have no IPv4 address. Many programs
// in such a pod ignore a name that has only an IPv4 address (AI_ADDRCONFIG) and ask DNS, so that the
// call would leave in plaintext. Kubernetes accepts no IPv4 address in the form of an IPv6 one.
func onlyIPv6(svc *corev1.Service) bool {
	for _, ip := range append([]string{svc.Spec.ClusterIP}, svc.Spec.ClusterIPs...) {
		if ip != "" && !strings.Contains(ip, ":") {
			return false
		}
	}
	return svc.Spec.ClusterIP != ""
}

// sharing returns a target that has the address and a port of t, or "".
func sharing(t Target, targets []Target) string {
	for _, other := range targets {
		for _, p := range t.Ports {
			if other.Address == t.Address && slices.ContainsFunc(other.Ports, func(o Port) bool { return o.Port == p.Port }) {
				return other.Service + "." + other.Namespace
			}
		}
	}
	return ""
}

// ownNames are the names that the kubelet writes into each hosts file, besides that of the pod.
var ownNames = []string{"localhost", "ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters"}

// inPod is what a pod has itself, without its proxy.
type inPod struct {
	ports     map[int32]string // usedPorts
	loopback  map[int32]string // of usedPorts, at the loopback address only
	aliases   map[string]bool  // names in its hosts file
	hostname  string           // "" if it is not known yet
	firstPort int32            // firstUnprivileged
	ownHosts  bool             // hasOwnHosts
}

func of(c Client) inPod {
	used, loopback := usedPorts(c.Pod)
	in := inPod{
		ports: used, loopback: loopback, aliases: map[string]bool{}, hostname: cmp.Or(c.Pod.Spec.Hostname, c.Pod.Name),
		firstPort: firstUnprivileged(c.Pod), ownHosts: hasOwnHosts(c.Pod),
	}
	for _, port := range c.Used {
		if in.ports[port] == "" {
			in.ports[port] = "a Service selects the pod with it"
		}
	}
	for _, port := range c.Proxy {
		if in.ports[port] == "" {
			in.ports[port] = "its proxy serves there, or may"
		}
	}
	for _, a := range c.Pod.Spec.HostAliases {
		for _, name := range a.Hostnames {
			in.aliases[name] = true
		}
	}
	return in
}

// aliasOf returns one of the names that the pod's own hostAliases have, or "".
func (in inPod) aliasOf(names []string) string {
	if i := slices.IndexFunc(names, func(name string) bool { return in.aliases[name] }); i >= 0 {
		return names[i]
	}
	return ""
}
