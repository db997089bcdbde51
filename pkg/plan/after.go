package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
)

// after is the cluster as it will be when the Services have their additions, and pods serve them.
type after struct {
	*Builder
	services map[key]*corev1.Service
	plans    map[key]*Service
}

func (b *Builder) after(services []Service) after {
	a := after{b, map[key]*corev1.Service{}, map[key]*Service{}}
	for i := range services {
		s := &services[i]
		k := key{s.Namespace, s.Name}
		a.services[k], a.plans[k] = s.Patch.applied(b.index.services[k].svc), s
	}
	return a
}

// view returns the webhook's view of the workload's namespace with these Services.
func (a after) view(w Workload, listed []api.Connect, wanted []key) choose.Known {
	var services []*corev1.Service
	all := slices.Contains(listed, api.Connect{})
	for _, e := range a.index.byNamespace[w.Namespace] {
		k := key{w.Namespace, e.svc.Name}
		svc := a.services[k]
		if api.Asks(svc) && (all || slices.Contains(wanted, k) || names(listed, k, w.Namespace) || api.Selects(svc, w.Pod)) {
			services = append(services, svc)
		}
	}
	known := a.known(w.Namespace, services...)
	known.ProxyImage = cmp.Or(known.ProxyImage, anyImage)
	known.ClusterDomain = cmp.Or(known.ClusterDomain, a.index.clusterDomain)
	known.Elsewhere = func(namespace, name string) *corev1.Service {
		k := key{namespace, name}
		if svc := a.services[k]; svc != nil && api.Asks(svc) && a.willBeOptedIn(k) {
			return svc
		}
		return nil
	}
	return known
}

// willBeOptedIn reports whether the namespace of the Service is opted in, or the plan does that.
func (a after) willBeOptedIn(k key) bool {
	s := a.plans[k]
	return a.isOptedIn(k.namespace) || s.Patch != nil || s.Way == WayRollout
}

// names reports whether an entry names the Service, for pods of a namespace.
func names(entries []api.Connect, k key, namespace string) bool {
	return slices.ContainsFunc(entries, func(c api.Connect) bool {
		return c.Service == k.name && cmp.Or(c.Namespace, namespace) == k.namespace
	})
}

// choose returns the webhook's decision about a pod of the workload with this annotation, or with its own.
func (a after) choose(w Workload, entries []api.Connect, wanted []key) choose.Choice {
	pod := withEntries(w.Pod, entries)
	request, _ := api.ParsePod(&pod.ObjectMeta)
	return choose.Secret(pod, request, a.view(w, entries, wanted))
}

// withEntries returns the pod with the annotation; the pod itself without entries.
func withEntries(pod *corev1.Pod, entries []api.Connect) *corev1.Pod {
	if len(entries) == 0 {
		return pod
	}
	out := *pod
	out.Annotations = maps.Clone(pod.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[api.AnnotationConnect] = api.FormatConnect(entries)
	return &out
}

// injected returns why the webhook would not give the workload a proxy that connects; empty if it would.
func (a after) injected(w Workload, entries []api.Connect, wanted []key) string {
	_, report, err := mutate.Mutate(withEntries(w.Pod, entries), a.view(w, entries, wanted))
	if err != nil {
		return err.Error()
	}
	for _, c := range report.Containers {
		if c.Name == api.ProxyContainer && slices.Contains(strings.Split(c.Parts(), ","), "connect") {
			return ""
		}
	}
	for _, n := range report.Notes {
		if slices.Contains(proxyRefusals, n.Reason) {
			return n.After("")
		}
	}
	return "the webhook gives its pods no proxy: " + report.Explain()
}

// served returns why the TLS port of a Service is not known to serve TLS once the steps before are done; empty if it is.
func (a after) served(k key, number int32) string {
	s := a.plans[k]
	i := slices.IndexFunc(s.Ports, func(p Port) bool { return p.Port == number })
	if i < 0 {
		return "" // the plan adds it
	}
	p := s.Ports[i]
	ok := false
	switch p.Today {
	case TodayTLS, TodayProxy, TodayAny:
		ok = !p.unseen
	case TodayAsked:
		ok = !p.refused && (p.annotate || p.rollOut)
	case TodayOwn:
		ok = a.opts.Live && s.notSeen(api.TargetPort(a.services[k].Spec.Ports[i])) == ""
	}
	if ok {
		return ""
	}
	why := fmt.Sprintf("its TLS port %d is not known to serve TLS with a certificate of the CA", number)
	if p.By != "" {
		why += " (" + p.By + ")"
	}
	return why + ": see that it does first"
}

// targetOf returns the target of the Service, or nil.
func targetOf(targets []connect.Target, k key) *connect.Target {
	i := slices.IndexFunc(targets, func(t connect.Target) bool { return t.Service == k.name && t.Namespace == k.namespace })
	if i < 0 {
		return nil
	}
	return &targets[i]
}

// closes returns a port that the workload calls and that the target does not have, or 0.
func closes(t *connect.Target, calls []made) int32 {
	for _, c := range calls {
		if c.port != 0 && !slices.ContainsFunc(t.Ports, func(p connect.Port) bool { return p.Port == c.port }) {
			return c.port
		}
	}
	return 0
}
