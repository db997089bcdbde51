package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// key names an object in a namespace.
type key struct{ namespace, name string }

// index finds Services by the names that clients use.
type index struct {
	services      map[key]*entry
	byNamespace   map[string][]*entry
	clusterDomain string
}

// entry is a Service and the references to it.
type entry struct {
	svc        *corev1.Service
	references []Reference
	seen       map[string]bool
	more       int
	moreOwn    int // among more, those that are not foreign
	toMove     int // the plaintext ones among those not in references
}

func newIndex(services []*corev1.Service, clusterDomain string) *index {
	x := &index{services: make(map[key]*entry, len(services)), byNamespace: map[string][]*entry{}, clusterDomain: cmp.Or(clusterDomain, "cluster.local")}
	for _, svc := range services {
		k := key{svc.Namespace, svc.Name}
		if x.services[k] != nil { // a duplicate manifest
			continue
		}
		e := &entry{svc: svc, seen: map[string]bool{}}
		x.services[k] = e
		x.byNamespace[svc.Namespace] = append(x.byNamespace[svc.Namespace], e)
	}
	return x
}

// host returns the Service that a host names for a client in the namespace, or nil. sure is true
// for a name that ends in "svc", which can only be a Service.
func (x *index) host(host, namespace string) (e *entry, sure bool) {
	host = strings.TrimSuffix(host, "."+x.clusterDomain)
	host, sure = strings.CutSuffix(host, ".svc")
	labels := strings.Split(host, ".")
	n := len(labels)
	switch {
	case sure && n >= 2: // a pod's hostname may come first, if the Service is headless
		return x.services[key{labels[n-1], labels[n-2]}], true
	case sure:
		return nil, false
	case n == 1:
		return x.services[key{namespace, host}], false
	case n == 2:
		if e := x.services[key{labels[1], labels[0]}]; e != nil {
			return e, false
		}
		return x.headless(key{namespace, labels[1]}), false
	case n == 3:
		return x.headless(key{labels[2], labels[1]}), false
	}
	return nil, false
}

func (x *index) headless(k key) *entry {
	if e := x.services[k]; e != nil && api.IsHeadless(e.svc) {
		return e
	}
	return nil
}

// port returns the Service's port for the number that a client dials, or 0.
func (e *entry) port(number int32) int32 {
	for _, p := range e.svc.Spec.Ports {
		if p.Port == number {
			return number
		}
	}
	if !api.IsHeadless(e.svc) {
		return 0
	}
	for _, p := range e.svc.Spec.Ports { // a headless Service maps no ports
		if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal == number {
			return p.Port
		}
	}
	return 0
}

// portOf returns the Service's port that a reference gives by number or name, or 0.
func (e *entry) portOf(port any) int32 {
	text := fmt.Sprint(port)
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		return e.port(int32(n))
	}
	return e.named(text)
}

// named returns the number of the port with the name, or 0.
func (e *entry) named(name string) int32 {
	for _, p := range e.svc.Spec.Ports {
		if p.Name == name {
			return p.Port
		}
	}
	return 0
}

// only returns the Service's port if it has exactly one, else 0.
func (e *entry) only() int32 {
	if len(e.svc.Spec.Ports) == 1 {
		return e.svc.Spec.Ports[0].Port
	}
	return 0
}

// add records a reference once, and lists at most MaxReferences. Those of other namespaces give way to others.
func (e *entry) add(r Reference) {
	id := strings.Join([]string{string(r.Via), r.Kind, r.Namespace, r.Name, r.Where, r.Address, string(r.Speaks)}, "\x00")
	foreign := func(r Reference) bool { return r.foreign(e.svc.Namespace) }
	if e.seen[id] {
		return
	}
	if len(e.references) < MaxReferences {
		e.seen[id] = true
		r.Address = api.Shorten(r.Address, maxAddress)
		e.references = append(e.references, r)
		return
	}
	if i := slices.IndexFunc(e.references, foreign); i >= 0 && !foreign(r) {
		e.seen[id] = true
		r.Address = api.Shorten(r.Address, maxAddress)
		e.references[i], r = r, e.references[i]
	}
	e.more++
	if !foreign(r) {
		e.moreOwn++
	}
	if r.mustMove() {
		e.toMove++
	}
}

// foreign reports whether the reference is of another namespace than that. Objects of no namespace are nobody's.
func (r Reference) foreign(namespace string) bool {
	return r.Namespace != "" && r.Namespace != namespace
}

// mustMove reports whether the reference has to change before plaintext is removed.
func (r Reference) mustMove() bool { return r.Speaks == SpeaksPlaintext && !r.Via.Stays() }

// finding is the place of a text that may contain addresses: a reference without its target.
type finding struct {
	Reference
	// whole is true if a bare Service name counts, as in a variable WEB_HOST.
	whole bool
}

// refer records references to the Services that a text names for a client in the namespace.
func (x *index) refer(f finding, text string) {
	if f.whole && len(text) <= maxHost && !strings.ContainsAny(text, ".:/ ") {
		if e := x.services[key{f.Namespace, text}]; e != nil {
			f.Address, f.Port, f.Speaks = text, e.only(), SpeaksUnknown
			e.add(f.Reference)
		}
		return
	}
	eachAddress(text, func(a address) {
		e, sure := x.host(a.host, f.Namespace)
		if e == nil {
			return
		}
		r := f.Reference
		p := protocolOf(a.scheme)
		r.Address, r.Port, r.Speaks = a.text, e.port(cmp.Or(a.port, p.port)), p.speaks
		if strings.HasPrefix(a.scheme, "postgres") && insistsOnTLS.MatchString(text) {
			r.Speaks = SpeaksTLS // which the client requests within the protocol
		}
		if a.scheme == "" && !sure && r.Port == 0 {
			return // probably a word or a file name
		}
		if r.Port == 0 && a.port == 0 && p.port == 0 {
			r.Port = e.only()
		}
		e.add(r)
	})
}

// insistsOnTLS matches the parameter with which clients of PostgreSQL refuse a server without TLS.
var insistsOnTLS = regexp.MustCompile(`(?i)sslmode=(require|verify)`)

// namesHost reports whether the name of a variable or ConfigMap key suggests that its value is a
// host.
func namesHost(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	return len(words) > 0 && slices.Contains([]string{"host", "hostname", "addr", "address", "server", "endpoint", "url", "hosts", "servers"}, words[len(words)-1])
}
