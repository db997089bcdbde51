package mutate

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// plaintextCall returns who in the pod calls the container's program without TLS, over the
// pod's own loopback, at a port that would serve TLS, or "". Such a call fails as soon as
// the program gets its certificate.
func (in *input) plaintextCall(c api.ContainerRef, r *recipe) string {
	if r.program != nil && r.program.Plain {
		return ""
	}
	ports := in.becomeTLS(c, r)
	for _, other := range in.running {
		if call := callOf(other, ports); call != "" {
			return "container " + other.Name + ": " + call
		}
	}
	return ""
}

// becomeTLS returns the ports that serve TLS once the container has its recipe: those of the
// Services, as far as the program serves there, and those on which it serves TLS in any case.
// Where no Service says a port, all that the container declares count.
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

// callOf returns the first address of a port that a container calls by HTTP: in its command
// line, in the value of a variable, or in a command that the kubelet runs in it. Such a
// command may leave out http://, as curl localhost:8080 does.
func callOf(c api.ContainerRef, ports []int32) string {
	for _, list := range [][]string{c.Command, c.Args} {
		for _, token := range list {
			if call := plainAddress(token, ports, false); call != "" {
				return call
			}
		}
	}
	for i := range c.Env {
		if call := plainAddress(c.Env[i].Value, ports, false); call != "" {
			return call
		}
	}
	for _, token := range commandsIn(c) {
		if call := plainAddress(token, ports, true); call != "" {
			return call
		}
	}
	return ""
}

// commandsIn returns the elements of the commands that the kubelet runs in the container.
func commandsIn(c api.ContainerRef) []string {
	var out []string
	for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if p != nil && p.Exec != nil {
			out = append(out, p.Exec.Command...)
		}
	}
	if c.Lifecycle == nil {
		return out
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil && h.Exec != nil {
			out = append(out, h.Exec.Command...)
		}
	}
	return out
}

// loopback are the hosts of addresses on the pod's own loopback.
var loopback = []string{"localhost", "127.0.0.1", "[::1]"}

// plainAddress returns the first address of one of the ports in the text that is on the
// loopback and of http://, or, if bare, of no protocol; else "".
func plainAddress(text string, ports []int32, bare bool) string {
	if len(ports) == 0 || !bare && !strings.Contains(text, "http://") {
		return ""
	}
	for _, host := range loopback {
		for from := 0; ; {
			at := strings.Index(text[from:], host)
			if at < 0 {
				break
			}
			at += from
			from = at + len(host)
			protocol, port := before(text[:at]), portAfter(text[from:])
			plain := protocol == "http" || protocol == "" && bare && strings.HasPrefix(text[from:], ":")
			if plain && slices.Contains(ports, port) {
				if protocol != "" {
					protocol += "://"
				}
				return protocol + host + ":" + strconv.Itoa(int(port))
			}
		}
	}
	return ""
}

// before returns the protocol at the end of a text, as http of "curl http://", or "".
func before(text string) string {
	text, ok := strings.CutSuffix(text, "://")
	if !ok {
		return ""
	}
	return text[strings.LastIndexFunc(text, func(r rune) bool { return r < 'a' || r > 'z' })+1:]
}

// portAfter returns the port at the beginning of a text, as 8080 of ":8080/healthz"; without
// one that of HTTP.
func portAfter(text string) int32 {
	digits, ok := strings.CutPrefix(text, ":")
	if !ok {
		return 80
	}
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		digits = digits[:end]
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return 0
	}
	return int32(port)
}
