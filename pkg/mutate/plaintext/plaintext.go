// Package plaintext finds who calls a port of a pod by HTTP over the pod's own loopback. Such a call
// fails once the port serves TLS. It is pure.
//
//	call := plaintext.Call(container, []int32{8080}, true) // "http://localhost:8080"
package plaintext

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Call returns the first address of a port that a container calls by HTTP: in its command
// line, in the value of a variable, or in a command that the kubelet runs in it. Such a
// command may leave out http://, as curl localhost:8080 does. In the program's own container
// 0.0.0.0 is where it listens.
func Call(c api.ContainerRef, ports []int32, another bool) string {
	values := sync.OnceValue(func() map[string]string {
		all := make(map[string]string, len(c.Env))
		for i := range c.Env {
			all[strings.ToLower(c.Env[i].Name)] = c.Env[i].Value
		}
		return all
	})
	in := func(text string, bare, unspecified bool) string {
		return plainAddress(text, ports, calls{bare: bare, unspecified: unspecified, values: values})
	}
	for _, list := range [][]string{c.Command, c.Args} {
		for _, token := range list {
			if call := in(token, false, another); call != "" {
				return call
			}
		}
	}
	for i := range c.Env {
		if call := in(c.Env[i].Value, false, another); call != "" {
			return call
		}
	}
	for _, token := range commandsIn(c) {
		if call := in(token, true, true); call != "" {
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

// loopback are the beginnings of addresses on the pod's own loopback.
var loopback = []string{"localhost", "127.", "[::1]"}

// unspecified are addresses by which a client on Linux reaches the loopback too.
var unspecified = []string{"0.0.0.0", "[::]"}

// calls says what counts as a call.
type calls struct {
	bare        bool                     // an address without a protocol
	unspecified bool                     // one of an unspecified host
	values      func() map[string]string // of the container's variables, by their names in lower case
}

// maxRest is how long what follows "127." in an address is at most.
const maxRest = len("255.255.255")

// plainAddress returns the first address of one of the ports in the text that is on the
// loopback and of http://, or, if bare, of no protocol; else "".
func plainAddress(text string, ports []int32, what calls) string {
	if len(ports) == 0 {
		return ""
	}
	folded := strings.ToLower(text) // of what is not ASCII the length may change, so text is not used from here on
	if !what.bare && !strings.Contains(folded, "http://") {
		return ""
	}
	hosts := loopback
	if what.unspecified {
		hosts = slices.Concat(loopback, unspecified)
	}
	for _, host := range hosts {
		for from := 0; ; {
			at := strings.Index(folded[from:], host)
			if at < 0 {
				break
			}
			at += from
			from = at + len(host)
			rest := folded[from:]
			if host == "127." {
				near := rest[:min(len(rest), maxRest)]
				rest = rest[len(near)-len(strings.TrimLeft(near, "0123456789.")):]
			}
			protocol := before(folded[:at])
			if protocol != "http" && (protocol != "" || !what.bare || !strings.HasPrefix(rest, ":")) {
				continue
			}
			if port := portAfter(rest, what.values); port == anyPort || slices.Contains(ports, port) {
				return written(protocol, folded[at:len(folded)-len(rest)], rest, port)
			}
		}
	}
	return ""
}

// written returns an address as a person may look for it.
func written(protocol, host, rest string, port int32) string {
	if protocol != "" {
		protocol += "://"
	}
	if port == anyPort {
		return protocol + host + ":" + rest[1:1+len(variable.FindString(rest[1:]))]
	}
	return protocol + host + ":" + strconv.Itoa(int(port))
}

// maxUser is how long a user and password before a host are at most.
const maxUser = 256

// before returns the protocol at the end of a text, as http of "curl http://" and of
// "http://user:password@", or "".
func before(text string) string {
	if strings.HasSuffix(text, "@") {
		near := text[max(0, len(text)-maxUser):]
		if i := strings.LastIndex(near, "://"); i >= 0 && !strings.ContainsAny(near[i+3:], "/ \t'\"") {
			text = text[:len(text)-len(near)+i+3]
		}
	}
	text, ok := strings.CutSuffix(text, "://")
	if !ok {
		return ""
	}
	return text[strings.LastIndexFunc(text, func(r rune) bool { return r < 'a' || r > 'z' })+1:]
}

// anyPort is the port of an address that says it by a variable whose value is not known.
const anyPort = -1

// variable matches a variable as the kubelet or a shell expands it.
var variable = regexp.MustCompile(`^\$(?:\(\w+\)|\{\w+[^}]{0,20}\}|\w+)`)

// portAfter returns the port at the beginning of a text in lower case, as 8080 of
// ":8080/healthz"; without one that of HTTP.
func portAfter(text string, values func() map[string]string) int32 {
	digits, ok := strings.CutPrefix(text, ":")
	if !ok {
		return 80
	}
	if name := variable.FindString(digits); name != "" {
		value := values()[strings.Trim(name, "$(){}")]
		if value == "" {
			return anyPort
		}
		digits = value
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
