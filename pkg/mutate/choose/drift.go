package choose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Drift returns how a pod's proxy differs from that of a pod that is created now: a sentence for each Service to which
// it connects otherwise, sorted, and, if pods have identities, for an identity and a list of clients that it lacks.
// Services of other namespaces are not compared if known.Elsewhere is nil. A pod that the webhook does not change, or
// would refuse, has none.
func Drift(pod *corev1.Pod, known Known) (out []string) {
	request, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil || api.Exempt(pod, request) != "" {
		return nil
	}
	proxy, _ := api.ProxyOf(pod)
	choice := Secret(pod, request, known)
	return append(connectsOtherwise(pod, proxy, choice, known), lacks(pod, proxy, choice, known)...)
}

// lacks returns what the proxy of a pod that is older than the trust domain lacks.
func lacks(pod *corev1.Pod, proxy api.Proxy, choice Choice, known Known) (out []string) {
	if known.TrustDomain == "" {
		return nil
	}
	if len(proxy.Connects) > 0 && len(choice.Connect) > 0 && !proxy.Has(api.ProxyFlagIdentity) {
		out = append(out, "the proxy shows no identity: servers whose Services list clients refuse its calls")
	}
	if proxy.Has(api.ProxyFlagClients) {
		return out
	}
	var names []string
	for _, l := range proxy.Listeners {
		names = append(names, l.Name)
	}
	if guarded := api.GuardedPorts(known.Services, pod.Labels, names); len(guarded) > 0 {
		out = append(out, "the proxy admits all clients at port "+strings.Join(guarded, ", ")+", which a Service guards: it has no list and no roots to verify them")
	}
	return out
}

// connectsOtherwise returns the sentences about Services.
func connectsOtherwise(pod *corev1.Pod, proxy api.Proxy, choice Choice, known Known) (out []string) {
	if len(proxy.Connects)+len(choice.Connect) == 0 {
		return nil
	}
	have, want := map[string]map[int32]int32{}, map[string]map[int32]int32{} // by host: the TLS port of each port
	add := func(to map[string]map[int32]int32, host string, port, tls int32) {
		if to[host] == nil {
			to[host] = map[int32]int32{}
		}
		to[host][port] = tls
	}
	for _, c := range proxy.Connects {
		add(have, c.Host, c.Port, c.TLSPort)
	}
	for _, t := range choice.Connect {
		for _, p := range t.Ports {
			add(want, t.Host(), p.Port, p.TLS)
		}
	}
	hosts := slices.Concat(slices.Collect(maps.Keys(have)), slices.Collect(maps.Keys(want)))
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		name := strings.TrimSuffix(host, ".svc")
		_, namespace, _ := strings.Cut(name, ".")
		switch {
		case known.Elsewhere == nil && namespace != cmp.Or(known.In, pod.Namespace):
		case have[host] == nil:
			out = append(out, "calls to "+name+" leave the pod as its programs make them")
		case want[host] == nil:
			out = append(out, "the proxy takes the calls to "+name+", and that of a new pod would not: "+choice.whyLeft(name))
		case !maps.Equal(have[host], want[host]):
			out = append(out, fmt.Sprintf("the proxy connects to %s at ports %s, and that of a new pod to %s", name, ports(have[host]), ports(want[host])))
		}
	}
	return out
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
