package pods

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

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

// Port is a TCP port that a container declares.
type Port struct {
	Name   string // may be empty
	Number uint16
	// Secrets are those whose key the container mounts.
	Secrets []string
}

// Pod returns a pod with what is kept of the template that decides which Secret it gets:
// its labels, its ports, and whether it runs something to its end.
func (t Template) Pod() *corev1.Pod {
	var ports []corev1.ContainerPort
	for _, p := range t.TCPPorts() {
		ports = append(ports, corev1.ContainerPort{Name: p.Name, ContainerPort: int32(p.Number), Protocol: corev1.ProtocolTCP})
	}
	if t.DeclaresPort && len(ports) == 0 {
		ports = []corev1.ContainerPort{{Protocol: corev1.ProtocolUDP}} // some port of another protocol
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}}}
	pod.Labels = t.LabelSet()
	if t.OneShot {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}}
	}
	return pod
}

// TCPPorts returns the TCP ports that the pods declare.
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
