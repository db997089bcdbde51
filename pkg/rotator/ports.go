package rotator

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// maxPorts bounds how many ports of a pod are dialled.
const maxPorts = 16

// portsOf returns the TCP ports that the pod declares, each NAME=NUMBER=SECRETS
// with the Secrets, separated by "+", whose key its container mounts. No name has
// one of these characters. A string, because a Template is compared as a whole.
func portsOf(pod *corev1.Pod) string {
	secrets := map[string][]string{} // by volume
	for i := range pod.Spec.Volumes {
		secrets[pod.Spec.Volumes[i].Name] = keysIn(&pod.Spec.Volumes[i])
	}
	var out []string
	for _, c := range api.RunningContainers(pod) {
		var mounted []string
		for _, m := range c.VolumeMounts {
			mounted = append(mounted, secrets[m.Name]...)
		}
		slices.Sort(mounted)
		for _, p := range c.Ports {
			if cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				out = append(out, p.Name+"="+strconv.Itoa(int(p.ContainerPort))+"="+strings.Join(slices.Compact(mounted), "+"))
			}
		}
	}
	return strings.Join(out, ",")
}

type containerPort struct {
	name    string
	number  uint16
	secrets []string
}

func parsePorts(s string) []containerPort {
	var out []containerPort
	for entry := range strings.SplitSeq(s, ",") {
		parts := strings.SplitN(entry, "=", 3)
		if len(parts) != 3 {
			continue // none
		}
		if number, err := strconv.ParseUint(parts[1], 10, 16); err == nil {
			out = append(out, containerPort{parts[0], uint16(number), strings.Split(parts[2], "+")})
		}
	}
	return out
}

// door is where the pods of one template are dialled.
type door struct {
	ports []uint16 // sorted; none if nothing tells one
	// name is what is asked for (SNI).
	name string
	// services are those whose business the pods are, oldest first.
	services []*corev1.Service
}

// doorOf returns how the pods of a template are reached that mount the Secret.
// services have a part in it, oldest first.
//
// The Services that select a pod know its ports, and where to find them by name.
// If none does, one without a selector may be carried to the pod by endpoints that
// somebody writes; else the containers that mount the Secret may declare ports.
func doorOf(t Template, secret string, services []*corev1.Service) *door {
	if len(services) == 0 {
		return &door{}
	}
	known := parsePorts(t.Ports)
	set := labels.Set(decodeLabels(t.Labels))
	var selecting, open []*corev1.Service
	for _, svc := range services {
		switch {
		case len(svc.Spec.Selector) == 0:
			open = append(open, svc)
		case labels.SelectorFromSet(svc.Spec.Selector).Matches(set):
			selecting = append(selecting, svc)
		}
	}
	for _, candidates := range [][]*corev1.Service{selecting, open} {
		if len(candidates) > 0 {
			return newDoor(targetsOf(candidates, known), candidates)
		}
	}
	return newDoor(declaredPorts(known, secret), services)
}

func newDoor(ports []uint16, services []*corev1.Service) *door {
	slices.Sort(ports)
	ports = slices.Compact(ports)
	return &door{ports: ports[:min(len(ports), maxPorts)], name: hostname(services[0]), services: services}
}

func hostname(svc *corev1.Service) string { return api.ServiceDomains(svc, "")[0] }

// targetsOf resolves the ports behind which the Services offer TLS. A name that no
// container has is no port, as for the Service itself.
func targetsOf(services []*corev1.Service, known []containerPort) []uint16 {
	var ports []uint16
	for _, svc := range services {
		for _, target := range api.TLSTargets(svc) {
			if target.Type == intstr.Int {
				if n := target.IntVal; n > 0 && n < 1<<16 {
					ports = append(ports, uint16(n))
				}
				continue
			}
			for _, p := range known {
				if p.name == target.StrVal {
					ports = append(ports, p.number)
				}
			}
		}
	}
	return ports
}

// declaredPorts returns the ports of the containers that mount the Secret: those
// that say TLS, or all if none does.
func declaredPorts(known []containerPort, secret string) []uint16 {
	var all, secure []uint16
	for _, p := range known {
		if !slices.Contains(p.secrets, secret) {
			continue
		}
		all = append(all, p.number)
		if api.PortSaysTLS(p.name, int32(p.number)) {
			secure = append(secure, p.number)
		}
	}
	if len(secure) > 0 {
		return secure
	}
	return all
}
