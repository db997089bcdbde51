package choose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
)

// A Difference is between a pod's proxy and that of a pod that is created now.
type Difference struct {
	Kind    DifferenceKind
	Service string // SERVICE.NAMESPACE, if it is about connections to one Service

	have, want map[int32]int32 // the TLS port of each port that programs call
	lost       []int32         // of have: the Service does not have their TLS port any more
	why        string          // LeftOut: why a new pod does not connect
	unguarded  []string        // NoList: the names of ports that a Service guards
}

// DifferenceKind is what differs.
type DifferenceKind string

// The kinds of a Difference.
const (
	// Unconnected: the calls leave the pod as its programs make them, and those of a new pod would not.
	Unconnected DifferenceKind = "Unconnected"
	// LeftOut: the proxy takes the calls, and that of a new pod would not.
	LeftOut DifferenceKind = "LeftOut"
	// PortsDiffer: both take calls, but not to the same ports.
	PortsDiffer DifferenceKind = "PortsDiffer"
	// NoIdentity and NoList: the pod is older than the trust domain.
	NoIdentity DifferenceKind = "NoIdentity"
	NoList     DifferenceKind = "NoList"
)

// String returns the difference as a clause, and which calls of the pod fail because of it. Calls of a port on which the
// proxy does not listen fail in the pod: the names of the Service lead to a loopback address.
func (d Difference) String() (out string) {
	switch d.Kind {
	case NoIdentity:
		return "the proxy shows no identity: servers whose Services list clients refuse its calls"
	case NoList:
		return "the proxy admits all clients at port " + strings.Join(d.unguarded, ", ") + ", which a Service guards: it has no list and no roots to verify them"
	case Unconnected:
		return "calls to " + d.Service + " leave the pod as its programs make them"
	case LeftOut:
		out = "the proxy takes the calls to " + d.Service + ", and that of a new pod would not: " + d.why
	case PortsDiffer:
		out = fmt.Sprintf("the proxy connects to %s at ports %s, and that of a new pod to %s", d.Service, ports(d.have), ports(d.want))
	}
	if len(d.lost) > 0 {
		out += "; calls of " + numbers(d.lost) + " fail, because the TLS port is gone"
	}
	if added := d.added(); len(added) > 0 {
		out += "; calls of " + numbers(added) + " fail in the pod, where nothing listens for them"
	}
	return out
}

// added returns the ports of which only the proxy of a new pod takes calls, although that of the pod takes others.
func (d Difference) added() []int32 {
	if d.Kind != PortsDiffer {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.want)), func(port int32) bool { return d.have[port] != 0 })
}

// Drift returns how a pod's proxy differs from that of a pod that is created now: a Difference for each Service to which it
// connects otherwise, sorted, and, with a trust domain, those for an identity and a list of clients that it lacks.
// Services of other namespaces are not compared if known.Elsewhere is nil. A pod that the webhook does not change, or
// would refuse, has none.
func Drift(pod *corev1.Pod, known Known) []Difference {
	request, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil || api.Exempt(pod, request) != "" {
		return nil
	}
	c := Secret(pod, request, known)
	return append(c.Drift(pod, known), c.lacks(pod, known)...)
}

// lacks returns what the proxy of a pod that is older than the trust domain lacks.
func (c Choice) lacks(pod *corev1.Pod, known Known) (out []Difference) {
	if known.TrustDomain == "" {
		return nil
	}
	proxy, _ := api.ProxyOf(pod)
	if len(proxy.Connects) > 0 && len(c.Connect) > 0 && !proxy.Has(api.ProxyFlagIdentity) {
		out = append(out, Difference{Kind: NoIdentity})
	}
	if proxy.Has(api.ProxyFlagClients) {
		return out
	}
	var names []string
	for _, l := range proxy.Listeners {
		names = append(names, l.Name)
	}
	if guarded := api.GuardedPorts(known.Services, pod.Labels, names); len(guarded) > 0 {
		out = append(out, Difference{Kind: NoList, unguarded: guarded})
	}
	return out
}

// hasNoProxy reports whether the pod's proxy connects to nothing, and the webhook noted that it could not add one. A forged
// note only hides the differences of its own pod.
func hasNoProxy(pod *corev1.Pod, proxy api.Proxy) bool {
	if len(proxy.Connects) > 0 {
		return false
	}
	status, _ := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
	return slices.ContainsFunc(status.Notes, func(note string) bool {
		reason, _, _ := strings.Cut(note, ": ")
		return slices.Contains([]reasons.Reason{reasons.ProxyNoImage, reasons.ProxyNameTaken}, reasons.Reason(reason))
	})
}

// Drift returns the differences of connections for the pod of the choice.
func (c Choice) Drift(pod *corev1.Pod, known Known) (out []Difference) {
	proxy, _ := api.ProxyOf(pod)
	if len(proxy.Connects)+len(c.Connect) == 0 || hasNoProxy(pod, proxy) {
		return nil
	}
	have, want := map[string]map[int32]int32{}, map[string]map[int32]int32{} // by SERVICE.NAMESPACE
	add := func(to map[string]map[int32]int32, service string, port, tls int32) {
		if to[service] == nil {
			to[service] = map[int32]int32{}
		}
		to[service][port] = tls
	}
	for _, p := range proxy.Connects {
		add(have, strings.TrimSuffix(p.Host, ".svc"), p.Port, p.TLSPort)
	}
	for _, t := range c.Connect {
		for _, p := range t.Ports {
			add(want, t.Service+"."+t.Namespace, p.Port, p.TLS)
		}
	}
	services := slices.Concat(slices.Collect(maps.Keys(have)), slices.Collect(maps.Keys(want)))
	slices.Sort(services)
	own := cmp.Or(known.In, pod.Namespace)
	for _, name := range slices.Compact(services) {
		d := Difference{Service: name, have: have[name], want: want[name]}
		service, namespace, _ := strings.Cut(name, ".")
		switch {
		case known.Elsewhere == nil && namespace != own, maps.Equal(d.have, d.want):
			continue
		case d.have == nil:
			d.Kind = Unconnected
		case d.want == nil:
			d.Kind, d.why = LeftOut, c.whyLeft(name)
		default:
			d.Kind = PortsDiffer
		}
		if namespace == own || !slices.Contains(c.Missing, namespace) { // otherwise it was asked for
			d.lost = lost(d.have, known.service(own, namespace, service))
		}
		out = append(out, d)
	}
	return out
}

// service returns a Service that requests a certificate, or nil. own is the namespace of the pod.
func (k Known) service(own, namespace, name string) *corev1.Service {
	if namespace != own {
		return k.Elsewhere(namespace, name)
	}
	if i := slices.IndexFunc(k.Services, func(svc *corev1.Service) bool { return svc.Name == name && api.Asks(svc) }); i >= 0 {
		return k.Services[i]
	}
	return nil
}

// lost returns the ports whose TLS port the Service does not have; none if its ports are not known.
func lost(have map[int32]int32, svc *corev1.Service) []int32 {
	if svc == nil || api.CheckSize(svc) != nil {
		return nil
	}
	secure := connect.TLSPorts(svc)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(have)), func(port int32) bool { return slices.Contains(secure, have[port]) })
}

// Sketch returns a smaller pod for which [Drift] returns the same, once it has the pod's name, labels, owners, and the TCP
// ports of its running containers. For most pods it is empty.
func Sketch(pod *corev1.Pod) *corev1.Pod {
	proxy, ok := api.ProxyOf(pod)
	if hasNoProxy(pod, proxy) {
		return WithoutDrift()
	}
	out := &corev1.Pod{Spec: connect.Sketch(sidecar.Without(pod))}
	if listed, is := pod.Annotations[api.AnnotationConnect]; is {
		out.Annotations = map[string]string{api.AnnotationConnect: listed}
	}
	if !ok {
		return out
	}
	c := corev1.Container{Name: api.ProxyContainer, RestartPolicy: proxy.RestartPolicy}
	for _, p := range proxy.Connects {
		c.Args = append(c.Args, api.ProxyFlagConnect+"="+p.String())
	}
	for _, l := range proxy.Listeners {
		c.Args = append(c.Args, api.ProxyFlagListen+"="+l.String())
	}
	if proxy.Admin != 0 {
		c.Args = append(c.Args, api.ProxyFlagAdmin+"=:"+strconv.Itoa(int(proxy.Admin)))
	}
	out.Spec.InitContainers = []corev1.Container{c}
	return out
}

// WithoutDrift returns a pod for which Drift returns nothing, whatever is known.
func WithoutDrift() *corev1.Pod {
	status := api.InjectionStatus{Reason: string(reasons.ProxyNoImage), Notes: []string{string(reasons.ProxyNoImage)}}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationStatus: status.Format()}}}
}

// whyLeft returns why a pod does not connect to SERVICE.NAMESPACE.
func (c Choice) whyLeft(name string) string {
	for _, l := range c.Left {
		if l.Service == name {
			return l.Why
		}
	}
	return "no annotation of the pod lists it any more"
}

// ports returns the ports that programs call, each with the TLS port unless it is the same.
func ports(of map[int32]int32) string {
	var out []string
	for _, port := range slices.Sorted(maps.Keys(of)) {
		text := fmt.Sprint(port)
		if tls := of[port]; tls != port {
			text += fmt.Sprintf(" (TLS %d)", tls)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// numbers returns "port 80" or "ports 80, 443".
func numbers(of []int32) string {
	text := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(of)), ", "), "[]")
	if len(of) == 1 {
		return "port " + text
	}
	return "ports " + text
}
