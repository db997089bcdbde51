// Package plaintext finds HTTP calls to a port of a pod over the pod's own loopback. Such a call fails
// once the port serves TLS. It is pure.
//
//	for _, call := range plaintext.Calls(api.RunningContainers(pod)) {
//		if call.LeadsTo("web", []int32{8080}) {
//			fmt.Println(call.Container, call.Address) // proxy http://localhost:8080
//		}
//	}
package plaintext

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Call is an address on the pod's own loopback that a container calls by HTTP.
type Call struct {
	Container string // the name of the container
	Address   string // in a form that a person can search for
	port      int32
	// listens is true if a program of the container may listen on the address, such as 0.0.0.0.
	listens bool
}

// LeadsTo reports whether the call is for one of the ports of the container's program.
func (c Call) LeadsTo(container string, ports []int32) bool {
	if c.listens && c.Container == container {
		return false
	}
	return slices.Contains(ports, c.port) || c.port == anyPort && len(ports) > 0
}

// maxCalls is how many calls of a pod are told apart.
const maxCalls = 100

// Calls returns the calls of the containers, in their order: in their command lines, in the values of
// variables, and in commands that the kubelet runs in them. Such a command may omit http://, as in
// curl localhost:8080. Calls of a container to the same port are returned once. After maxCalls there
// is one that stands for all others. The result is not nil.
func Calls(containers []api.ContainerRef) []Call {
	f := finder{calls: []Call{}, seen: map[Call]bool{}}
	for _, c := range containers {
		f.container = c.Name
		f.values = sync.OnceValue(func() map[string]string {
			all := make(map[string]string, len(c.Env))
			for i := range c.Env {
				all[strings.ToLower(c.Env[i].Name)] = c.Env[i].Value
			}
			return all
		})
		for text, isCommand := range Texts(c.Container) {
			f.find(text, isCommand)
		}
	}
	if len(f.calls) > maxCalls {
		f.calls[maxCalls].Address = fmt.Sprintf("one of more than %d addresses", maxCalls)
		f.calls[maxCalls].port, f.calls[maxCalls].listens = anyPort, false
	}
	return f.calls
}

// Texts yields the texts of a container in which [Calls] looks, and whether the text is in a command
// that the kubelet runs.
func Texts(c *corev1.Container) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for _, list := range [][]string{c.Command, c.Args} {
			for _, token := range list {
				if !yield(token, false) {
					return
				}
			}
		}
		for i := range c.Env {
			if !yield(c.Env[i].Value, false) {
				return
			}
		}
		for _, token := range commandsIn(c) {
			if !yield(token, true) {
				return
			}
		}
	}
}

// commandsIn returns the elements of the commands that the kubelet runs in the container.
func commandsIn(c *corev1.Container) []string {
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

var hosts = slices.Concat(loopback, unspecified)

// maxRest is the largest length of the rest of an address after "127.".
const maxRest = len("255.255.255")

// finder collects the calls of a pod.
type finder struct {
	calls     []Call
	seen      map[Call]bool            // without Address
	container string                   // whose texts are looked at
	values    func() map[string]string // of its variables, by their names in lower case
}

// find adds the loopback addresses in the text with http:// or, in a command, without a protocol.
func (f *finder) find(text string, isCommand bool) {
	folded := strings.ToLower(text) // lower case may change the length of non-ASCII text, so text is not used below
	if !isCommand && !strings.Contains(folded, "http://") {
		return
	}
	for _, host := range hosts {
		for from := 0; len(f.calls) <= maxCalls; {
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
			if protocol != "http" && (protocol != "" || !isCommand || !strings.HasPrefix(rest, ":")) {
				continue
			}
			call := Call{Container: f.container, port: portAfter(rest, f.values), listens: !isCommand && slices.Contains(unspecified, host)}
			if !f.seen[call] {
				f.seen[call] = true
				call.Address = written(protocol, folded[at:len(folded)-len(rest)], rest, call.port)
				f.calls = append(f.calls, call)
			}
		}
	}
}

// written returns an address in a form that a person can search for.
func written(protocol, host, rest string, port int32) string {
	if protocol != "" {
		protocol += "://"
	}
	if port == anyPort {
		return protocol + host + ":" + variableIn(rest[1:])
	}
	return protocol + host + ":" + strconv.Itoa(int(port))
}

// maxUser is the largest length of a user and password before a host.
const maxUser = 256

// maxProtocol is more than the length of a protocol that matters.
const maxProtocol = 8

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
	text = text[max(0, len(text)-maxProtocol):]
	return text[strings.LastIndexFunc(text, func(r rune) bool { return r < 'a' || r > 'z' })+1:]
}

// anyPort is the port of an address with a variable whose value is not known.
const anyPort = -1

// variable matches a variable as the kubelet or a shell expands it.
var variable = regexp.MustCompile(`^\$(?:\(\w+\)|\{\w+[^}]{0,20}\}|\w+)`)

// maxVariable and maxDigits are the largest lengths of a variable and of a port in an address.
const (
	maxVariable = 256
	maxDigits   = 16
)

// variableIn returns the variable at the beginning of a text, or "".
func variableIn(text string) string {
	if !strings.HasPrefix(text, "$") { // an address without one needs no regular expression
		return ""
	}
	return variable.FindString(text[:min(len(text), maxVariable)])
}

// portAfter returns the port at the beginning of a text in lower case, as 8080 of
// ":8080/healthz"; the default port of HTTP if there is none.
func portAfter(text string, values func() map[string]string) int32 {
	digits, ok := strings.CutPrefix(text, ":")
	if !ok {
		return 80
	}
	if name := variableIn(digits); name != "" {
		value := values()[strings.Trim(name, "$(){}")]
		if value == "" {
			return anyPort
		}
		digits = value
	}
	digits = digits[:min(len(digits), maxDigits)] // many addresses may have the same long value
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
