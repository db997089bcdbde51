package pods

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// portsOf returns the TCP ports that the pod declares, each NAME=NUMBER=SECRETS, cut off after
// maxPorts bytes. SECRETS is a bit set in hex of the Secrets in mounted whose key the container
// mounts; names would be repeated for each port. The result is a string because Templates are
// compared as a whole.
func portsOf(pod *corev1.Pod, mounted []string) string {
	bits := make(map[string]uint64, len(mounted))
	for i, secret := range mounted {
		bits[secret] = 1 << i
	}
	volumes := map[string]uint64{}
	for i := range pod.Spec.Volumes {
		for _, secret := range keysIn(&pod.Spec.Volumes[i]) {
			volumes[pod.Spec.Volumes[i].Name] |= bits[secret]
		}
	}
	var out []string
	left := budget(maxPorts)
	for _, c := range api.RunningContainers(pod) {
		var secrets uint64
		for _, m := range c.VolumeMounts {
			secrets |= volumes[m.Name]
		}
		for _, p := range c.Ports {
			if cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP {
				continue
			}
			port := p.Name + "=" + strconv.Itoa(int(p.ContainerPort)) + "=" + strconv.FormatUint(secrets, 16)
			if !left.take(len(port) + len(",")) {
				return strings.Join(out, ",")
			}
			out = append(out, port)
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

// Pod returns a pod with the facts of the template that decide which Secret and which names it
// gets: labels, ports, whether it runs to completion, hostname and subdomain.
func (t Template) Pod() *corev1.Pod {
	var ports []corev1.ContainerPort
	for _, p := range t.TCPPorts() {
		ports = append(ports, corev1.ContainerPort{Name: p.Name, ContainerPort: int32(p.Number), Protocol: corev1.ProtocolTCP})
	}
	if t.DeclaresPort && len(ports) == 0 {
		ports = []corev1.ContainerPort{{Protocol: corev1.ProtocolUDP}} // any port of another protocol
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Ports: ports}}, Hostname: t.Hostname, Subdomain: t.Subdomain,
	}}
	pod.Labels = t.LabelSet()
	if t.OneShot {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}}
	}
	return pod
}

// TCPPorts returns the TCP ports that the pods declare.
func (t Template) TCPPorts() []Port {
	var out []Port
	mounted := t.mounted()
	secrets := map[string][]string{} // by bit set
	for entry := range strings.SplitSeq(t.Ports, ",") {
		parts := strings.SplitN(entry, "=", 3)
		if len(parts) != 3 {
			continue // no port
		}
		if _, known := secrets[parts[2]]; !known {
			secrets[parts[2]] = chosen(mounted, parts[2])
		}
		if number, err := strconv.ParseUint(parts[1], 10, 16); err == nil {
			out = append(out, Port{parts[0], uint16(number), secrets[parts[2]]})
		}
	}
	return out
}

// startTLSOf returns the STARTTLS protocols in the webhook's status, by port. A forged status only
// changes how the rotator dials that pod.
func startTLSOf(status api.InjectionStatus) string {
	protocols := status.Protocols()
	out := make([]string, 0, len(protocols))
	for _, port := range slices.Sorted(maps.Keys(protocols)) {
		out = append(out, strconv.Itoa(int(port))+"="+string(protocols[port]))
	}
	return strings.Join(out, ",")
}

// Protocols returns the STARTTLS protocols of the pods' ports, by number.
func (t Template) Protocols() map[uint16]starttls.Protocol {
	if t.startTLS == "" {
		return nil
	}
	out := map[uint16]starttls.Protocol{}
	for entry := range strings.SplitSeq(t.startTLS, ",") {
		port, protocol, _ := strings.Cut(entry, "=")
		number, _ := strconv.ParseUint(port, 10, 16) // startTLSOf wrote it
		out[uint16(number)] = starttls.Protocol(protocol)
	}
	return out
}

// chosen returns the Secrets in mounted whose bit is set in the hex number.
func chosen(mounted []string, hex string) []string {
	bits, _ := strconv.ParseUint(hex, 16, 64) // portsOf wrote it
	var out []string
	for i, secret := range mounted {
		if bits&(1<<i) != 0 {
			out = append(out, secret)
		}
	}
	return out
}
