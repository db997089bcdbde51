package pods

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// serving returns the containers that run as long as the pod does, native
// sidecars included.
func serving(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	return out
}

// portsOf returns the TCP ports that the pod declares, each NAME=NUMBER=SECRETS
// with the Secrets, separated by "+", whose key its container mounts. No name has
// one of these characters. A string, because a Template is compared as a whole.
func portsOf(pod *corev1.Pod) string {
	secrets := map[string][]string{} // by volume
	for i := range pod.Spec.Volumes {
		secrets[pod.Spec.Volumes[i].Name] = keysIn(&pod.Spec.Volumes[i])
	}
	var out []string
	for _, c := range serving(pod) {
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

// Port is a TCP port that a container declares.
type Port struct {
	Name   string // may be empty
	Number uint16
	// Secrets are those whose key the container mounts.
	Secrets []string
}

// TCPPorts returns the TCP ports of a pod that mounts a Secret.
func (t Template) TCPPorts() []Port {
	var out []Port
	for entry := range strings.SplitSeq(t.Ports, ",") {
		parts := strings.SplitN(entry, "=", 3)
		if len(parts) != 3 {
			continue // none
		}
		if number, err := strconv.ParseUint(parts[1], 10, 16); err == nil {
			out = append(out, Port{parts[0], uint16(number), strings.Split(parts[2], "+")})
		}
	}
	return out
}
