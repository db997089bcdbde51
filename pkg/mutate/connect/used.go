package connect

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// usedPorts returns the ports on which a program of the pod seems to listen, each with what indicates
// it: a container's ports, probes, variables or arguments. On Linux a program cannot listen on all
// addresses of a port on which another one listens at any address, such as the proxy. loopback are
// those on which it seems to listen at the loopback address only.
func usedPorts(pod *corev1.Pod) (used, loopback map[int32]string) {
	used, loopback = map[int32]string{}, map[int32]string{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			addTo := func(used map[int32]string, port int32, where string) {
				switch {
				case port == 0 || used[port] != "":
				case c.Name == "":
					used[port] = "see its ports, probes, variables and arguments"
				default:
					used[port] = "container " + c.Name + ", " + where
				}
			}
			add := func(port int32, where string) { addTo(used, port, where) }
			says := func(name, value, where string) {
				if port, only := listenPort(name, value); only {
					addTo(loopback, port, where)
				} else {
					add(port, where)
				}
			}
			for _, p := range c.Ports {
				if cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
					add(p.ContainerPort, "ports")
				}
			}
			for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				add(probed(p), "probes")
			}
			for _, e := range c.Env {
				says(e.Name, e.Value, "env "+e.Name)
			}
			for _, word := range slices.Concat(c.Command, c.Args) {
				option, value, _ := strings.Cut(word, "=")
				says("", word, "arguments")
				says(option, value, "arguments")
			}
		}
	}
	return used, loopback
}

// Sketch returns the spec of a pod that [Targets] treats as pod, but for its labels and the TCP ports that its running
// containers declare. The ports that it uses are in arguments of a container without a name.
func Sketch(pod *corev1.Pod) corev1.PodSpec {
	out := corev1.PodSpec{HostNetwork: pod.Spec.HostNetwork, Hostname: pod.Spec.Hostname, HostAliases: pod.Spec.HostAliases}
	used, loopback := usedPorts(pod)
	for _, c := range api.RunningContainers(pod) {
		for _, p := range c.Ports {
			if cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				delete(used, p.ContainerPort)
			}
		}
	}
	c := corev1.Container{}
	for _, port := range slices.Sorted(maps.Keys(used)) {
		c.Args = append(c.Args, ":"+strconv.Itoa(int(port)))
	}
	for _, port := range slices.Sorted(maps.Keys(loopback)) {
		c.Args = append(c.Args, "localhost:"+strconv.Itoa(int(port)))
	}
	if hasOwnHosts(pod) {
		c.VolumeMounts = []corev1.VolumeMount{{MountPath: hostsFile}}
	}
	if len(c.Args)+len(c.VolumeMounts) > 0 {
		out.Containers = []corev1.Container{c}
	}
	if first := firstUnprivileged(pod); first != 0 {
		out.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: UnprivilegedPorts, Value: strconv.Itoa(int(first))}}}
	}
	return out
}

const hostsFile = "/etc/hosts"

// hasOwnHosts reports whether a container mounts a hosts file of its own, so that the kubelet writes
// none for it.
func hasOwnHosts(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == hostsFile })
	})
}

// maxWord is the largest size of a name and of a value that are examined.
const maxWord = 128

// listenNames matches names of variables and options for a port on which a program listens. A name
// with the word "port" alone, such as DB_PORT or --port, may be that of a server that it calls.
var listenNames = regexp.MustCompile(`(?i)^(PORT|(HTTP|SERVER|APP|WEB|LISTEN)[_-]PORT)$|listen|bind`)

// allAddresses are what precedes the colon in an address to listen on, and loopbackAddresses those of
// which a program listens, or is called, at the loopback address only; both after one of schemes.
var (
	schemes           = []string{"tcp://", "http://", "https://"}
	allAddresses      = []string{"", "0.0.0.0", "[::]", "*", "+"}
	loopbackAddresses = []string{"localhost", "[::1]", "::1"}
)

// listenPort returns the port of a value that is an address to listen on, such as :8080 or
// 0.0.0.0:8080. It also returns a value that is a number, if the name is one of listenNames. For any
// other value it returns 0. only means that the address is one of loopbackAddresses.
func listenPort(name, value string) (port int32, only bool) {
	if len(name) > maxWord || len(value) > maxWord {
		return 0, false
	}
	for _, scheme := range schemes {
		if rest, ok := strings.CutPrefix(value, scheme); ok {
			value = strings.TrimSuffix(rest, "/")
		}
	}
	i := strings.LastIndexByte(value, ':')
	n, err := strconv.ParseUint(value[i+1:], 10, 16)
	switch {
	case err != nil:
		return 0, false
	case i < 0:
		bare := strings.TrimLeft(name, "-")
		if !listenNames.MatchString(bare) || bare != name && strings.EqualFold(bare, "port") {
			return 0, false
		}
		return int32(n), false
	case slices.Contains(loopbackAddresses, value[:i]):
		return int32(n), true
	case slices.Contains(allAddresses, value[:i]):
		return int32(n), false
	}
	return 0, false
}

// probed returns the number of the port that the probe calls, or 0.
func probed(p *corev1.Probe) int32 {
	switch {
	case p == nil:
	case p.HTTPGet != nil:
		return p.HTTPGet.Port.IntVal
	case p.TCPSocket != nil:
		return p.TCPSocket.Port.IntVal
	case p.GRPC != nil:
		return p.GRPC.Port
	}
	return 0
}

// UnprivilegedPorts is the sysctl with the first port on which a program needs no privilege to
// listen. It is among those that Kubernetes calls safe, and the Pod Security Standard "restricted"
// accepts it.
const UnprivilegedPorts = "net.ipv4.ip_unprivileged_port_start"

// firstUnprivileged returns the value of UnprivilegedPorts that the pod sets, or 0.
func firstUnprivileged(pod *corev1.Pod) int32 {
	if c := pod.Spec.SecurityContext; c != nil {
		for _, s := range c.Sysctls {
			if n, err := strconv.ParseUint(s.Value, 10, 16); s.Name == UnprivilegedPorts && err == nil {
				return int32(n)
			}
		}
	}
	return 0
}
