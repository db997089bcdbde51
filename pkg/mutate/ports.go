package mutate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/plaintext"
)

// tlsPorts returns the numbers of the pod's ports that serve TLS: the targetPorts of the
// Services. Without Services it returns, of the containers that get the certificate, the
// ports whose name or number indicates TLS, or else the only port. If there is a proxy, these
// serve TLS only if they are configured to.
func tlsPorts(in *input, targets []api.ContainerRef) []int32 {
	var ports []int32
	var named map[string][]int32
	for _, t := range in.choice.Ports {
		if t.Type == intstr.Int {
			ports = append(ports, t.IntVal)
			continue
		}
		if named == nil {
			named = namedPorts(in.running)
		}
		ports = append(ports, named[t.StrVal]...)
	}
	if len(in.choice.Ports) > 0 || len(in.choice.Proxied) > 0 && in.settings.Mode != api.ModeArgs {
		return ports
	}
	var all []int32
	for _, c := range targets {
		for _, p := range c.Ports {
			all = append(all, p.ContainerPort)
			if api.PortSaysTLS(p.Name, p.ContainerPort) {
				ports = append(ports, p.ContainerPort)
			}
		}
	}
	if len(ports) == 0 && len(all) == 1 {
		return all
	}
	return ports
}

// namedPorts returns the numbers of the ports of each name, one for each container.
func namedPorts(containers []api.ContainerRef) map[string][]int32 {
	named := map[string][]int32{}
	for _, c := range containers {
		first := map[string]bool{}
		for _, p := range c.Ports {
			if !first[p.Name] {
				first[p.Name] = true
				named[p.Name] = append(named[p.Name], p.ContainerPort)
			}
		}
	}
	return named
}

// portNumber resolves a port number or port name of the container, as for a probe.
func portNumber(c *corev1.Container, port intstr.IntOrString) (int32, bool) {
	if port.Type == intstr.Int {
		return port.IntVal, true
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return p.ContainerPort, true
		}
	}
	return 0, false
}

// plaintextCall returns which container of the pod calls the container's program without
// TLS, over the pod's loopback, on a port that would serve TLS, or "". Such a call fails as
// soon as the program gets its certificate.
func (in *input) plaintextCall(c api.ContainerRef, r *recipe) string {
	if r.program != nil && r.program.Plain {
		return ""
	}
	if in.calls == nil { // the texts of a pod may be long, and its containers many
		in.calls = plaintext.Calls(in.running)
	}
	ports := in.becomeTLS(c, r)
	i := slices.IndexFunc(in.calls, func(call plaintext.Call) bool { return call.LeadsTo(c.Name, ports) })
	if i < 0 {
		return ""
	}
	return "container " + in.calls[i].Container + ": " + in.calls[i].Address
}

// becomeTLS returns the ports that serve TLS once the container has its recipe: those of the
// Services on which the program serves, and those on which it always serves TLS. If no
// Service names a port, all that the container declares count.
func (in *input) becomeTLS(c api.ContainerRef, r *recipe) []int32 {
	ports := tlsPorts(in, []api.ContainerRef{c})
	if len(ports) == 0 {
		for _, p := range c.Ports {
			ports = append(ports, p.ContainerPort)
		}
	}
	if r.program == nil {
		return ports
	}
	at := placement{ContainerRef: c, offer: offer{recipe: r}}
	ports = slices.DeleteFunc(slices.Clone(ports), func(p int32) bool { return !at.servesOn(p) })
	return append(ports, r.program.AlsoPorts...)
}
