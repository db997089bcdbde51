package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/preview"
)

// Endpoints counts the ready endpoints of each Service by port name. A pod with two address families
// counts twice.
type Endpoints map[key]map[string]int

// Add counts the endpoints of a slice.
func (e Endpoints) Add(slice *discoveryv1.EndpointSlice) {
	k := key{slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}
	ready := 0
	for _, endpoint := range slice.Endpoints {
		if r := endpoint.Conditions.Ready; r == nil || *r { // discovery/v1: nil means true
			ready++
		}
	}
	for _, p := range slice.Ports {
		if e[k] == nil {
			e[k] = map[string]int{}
		}
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		e[k][name] += ready
	}
}

// Ready returns the number of ready endpoints of the named port.
func (e Endpoints) Ready(namespace, service, port string) int {
	return e[key{namespace, service}][port]
}

// proxyPort evaluates a port that requests the proxy: whether its pods get the proxy, and whether
// the port has ready endpoints.
func (b *Builder) proxyPort(svc *corev1.Service, p corev1.ServicePort, asked api.ProxyPort, workloads []Workload, out *Port) {
	out.Today, out.By = TodayAsked, "the Service has no annotation "+api.AnnotationSecretName
	if !api.Asks(svc) {
		out.annotate = len(workloads) > 0
		if why := b.refusedByAll(asking(svc, svc.Spec.Ports...), asked.Name(), workloads); why != "" {
			out.By, out.annotate, out.refused = why, false, true
		}
		return
	}
	if out.By = b.leftAlone(svc.Namespace); out.By != "" {
		return
	}
	if out.By = noWorkload(svc, workloads); out.By != "" {
		return
	}
	for _, w := range workloads {
		why, refused := b.noProxyFor(w, asked)
		if why != "" {
			out.By, out.without = why, append(out.without, w.String())
			out.Notes = appendNew(out.Notes, why)
			out.refused = out.refused || refused
		}
	}
	if len(out.without) == len(workloads) {
		return
	}
	out.refused = false // some pods get the proxy
	for _, w := range workloads {
		out.block(b.blocked(w))
	}
	if in, known := b.optedIn(svc.Namespace); known && !in {
		out.By, out.rollOut = "the namespace has no label "+api.LabelInject+"="+api.InjectEnabled, true
		return
	}
	if out.By, out.rollOut = b.older(svc, p, workloads, out.without); out.rollOut {
		return
	}
	out.Today, out.By = TodayProxy, "the proxy for port "+asked.Upstream
	if asked.Plaintext {
		out.Today = TodayAny
	}
}

// older returns whether pods must be replaced to get the proxy of the port, and why, as far as endpoints
// and pods are known.
func (b *Builder) older(svc *corev1.Service, p corev1.ServicePort, workloads []Workload, without []string) (string, bool) {
	for _, w := range workloads {
		r := b.running[w.Namespace+" "+w.String()]
		if r != nil && r.proxies[p.TargetPort.StrVal] < r.pods && !slices.Contains(without, w.String()) {
			return "pods of " + w.String() + " do not have the proxy of this port", true
		}
	}
	if b.opts.Endpoints != nil && b.opts.Endpoints.Ready(svc.Namespace, svc.Name, p.Name) == 0 {
		return "no ready pod has the proxy of this port", true
	}
	return "", false
}

// running counts the pods of a workload.
type running struct {
	pods    int
	guarded int            // the pods whose proxy reads which clients it admits
	proxies map[string]int // the pods that have the proxy, by its port
	// connects counts the pods whose proxy connects to a Service, by its host.
	connects map[string]int
}

// AddPod records a pod of a workload, to find out whether pods are older than the requests of their Services.
func (b *Builder) AddPod(kind, name string, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	id := pod.Namespace + " " + kind + "/" + name
	if b.running[id] == nil {
		b.running[id] = &running{proxies: map[string]int{}, connects: map[string]int{}}
	}
	b.running[id].pods++
	proxy, _ := api.ProxyOf(pod)
	if proxy.Has(api.ProxyFlagClients) {
		b.guarded = true
		b.running[id].guarded++
	}
	for _, l := range proxy.Listeners {
		b.running[id].proxies[l.Name]++
	}
	hosts := map[string]bool{}
	for _, c := range proxy.Connects {
		if !hosts[c.Host] {
			hosts[c.Host] = true
			b.running[id].connects[c.Host]++
		}
	}
}

// noProxyFor returns why the pods of the workload get no proxy for the port; empty if they get it. refused is
// true if the webhook refuses it.
func (b *Builder) noProxyFor(w Workload, asked api.ProxyPort) (why string, refused bool) {
	if why := exempt(w); why != "" {
		return why, false
	}
	request, _ := api.ParsePod(&w.Pod.ObjectMeta) // doctor and analyze report errors
	services := b.asking(w)
	choice := choose.Secret(w.Pod, request, b.known(w.Namespace, services...))
	for _, p := range choice.Proxied {
		if p.ProxyPort == asked {
			note, refused := b.refusal(w, asked.Name(), services...)
			if refused {
				why = note.After(w.String() + ": ")
			}
			return why, refused
		}
	}
	switch {
	case choice.By == choose.ByPod && !choice.Requested:
		return w.String() + " uses Secret " + choice.Secret + ", which its own annotation names", false
	case choice.Service != "":
		return w.String() + " uses the certificate of Service " + choice.Service, false
	}
	return w.String() + " gets no proxy for this port", false
}

// exempt returns why the pods of the workload get no proxy at all; empty if they can.
func exempt(w Workload) string {
	request, _ := api.ParsePod(&w.Pod.ObjectMeta) // doctor and analyze report errors
	switch reason := api.Exempt(w.Pod, request); {
	case w.Pod.Spec.HostNetwork:
		return w.String() + " uses the host network, whose loopback interface is shared"
	case reason == api.ExemptWindows:
		return w.String() + " runs on Windows"
	case reason == api.ExemptOptedOut:
		return w.String() + " has the label " + api.LabelInject + "=" + api.InjectDisabled
	}
	return ""
}

// asking returns the Services that request a certificate and select the workload.
func (b *Builder) asking(w Workload) (out []*corev1.Service) {
	for _, e := range b.index.byNamespace[w.Namespace] {
		if api.Asks(e.svc) && api.Selects(e.svc, w.Pod) {
			out = append(out, e.svc)
		}
	}
	return out
}

// leftAlone returns why the webhook changes no pod of the namespace, regardless of its label; empty
// if it does.
func (b *Builder) leftAlone(namespace string) string {
	if preview.Excluded(namespace) || namespace == b.opts.System {
		return "the webhook changes no pods in namespace " + namespace
	}
	return ""
}

// noWorkload returns why the Service has no workload; empty if it has one.
func noWorkload(svc *corev1.Service, workloads []Workload) string {
	switch {
	case len(workloads) > 0:
		return ""
	case len(svc.Spec.Selector) == 0:
		return "the Service has no selector"
	}
	return "no known workload matches its selector"
}
