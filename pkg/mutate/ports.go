package mutate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// tlsPorts returns the numbers of the pod's ports that serve TLS: the targetPorts of the
// Services. Without Services, of the containers that get the certificate, the ports whose
// name or number is one of TLS, or else the only port.
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
	if len(in.choice.Ports) > 0 {
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
