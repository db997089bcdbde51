// Package plaintext finds HTTP calls to a port of a pod over the pod's own loopback. Such a call fails
// once the port serves TLS. It is pure.
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

// Call returns the first address of one of the ports that a container calls by HTTP: in its
// command line, in the value of a variable, or in a command that the kubelet runs in it. Such
// a command may omit http://, as in curl localhost:8080. another is false for the program's
// own container, in which it listens on 0.0.0.0.
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

// loopback are the prefixes of addresses on the pod's own loopback.
var loopback = []string{"localhost", "127.", "[::1]"}

// unspecified are addresses with which a client on Linux reaches the loopback too.
var unspecified = []string{"0.0.0.0", "[::]"}

// calls defines what counts as a call.
type calls struct {
	bare        bool                     // an address without a protocol
	unspecified bool                     // an address of an unspecified host
	values      func() map[string]string // of the container's variables, by their names in lower case
}

// maxRest is the largest length of the rest of an address after "127.".
const maxRest = len("255.255.255")

// plainAddress returns the first loopback address of one of the ports in the text with http://
// or, if bare, without a protocol; else "".
func plainAddress(text string, ports []int32, what calls) string {
	if len(ports) == 0 {
		return ""
	}
	folded := strings.ToLower(text) // lower case may change the length of non-ASCII text, so text is not used below
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

// written returns an address in a form that a person can search for.
func written(protocol, host, rest string, port int32) string {
	if protocol != "" {
		protocol += "://"
	}
	if port == anyPort {
		return protocol + host + ":" + rest[1:1+len(variable.FindString(rest[1:]))]
	}
	return protocol + host + ":" + strconv.Itoa(int(port))
}

// maxUser is the largest length of a user and password before a host.
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

// anyPort is the port of an address with a variable whose value is not known.
const anyPort = -1

// variable matches a variable as the kubelet or a shell expands it.
var variable = regexp.MustCompile(`^\$(?:\(\w+\)|\{\w+[^}]{0,20}\}|\w+)`)

// portAfter returns the port at the beginning of a text in lower case, as 8080 of
// ":8080/healthz"; the default port of HTTP if there is none.
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
