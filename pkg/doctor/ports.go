package doctor

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// ports returns the findings about the Service's target ports: an invalid request for a proxy, or a TLS
// port that no selected workload has.
func (n Namespace) ports(svc *corev1.Service, object string) []Finding {
	reaches := n.selected(svc)
	declared := func(name string) bool {
		return slices.ContainsFunc(reaches, func(r api.Reach) bool { return r.Declares(intstr.FromString(name)) })
	}
	var out []Finding
	wrong := map[string]bool{}
	for i, p := range svc.Spec.Ports {
		if err := api.CheckProxyPort(svc, p, declared); err != nil {
			wrong[p.TargetPort.StrVal] = true
			f := found(TLSPorts, object, "port %s: %v", cmp.Or(p.Name, strconv.Itoa(int(p.Port))), err)
			f.at = []any{"spec", "ports", i, "targetPort"}
			out = append(out, f)
		}
	}
	if len(reaches) == 0 || !api.Asks(svc) {
		return out
	}
	for _, need := range api.Needs(svc) {
		reached := slices.ContainsFunc(need.Targets, func(t api.ProbeTarget) bool {
			return slices.ContainsFunc(reaches, func(r api.Reach) bool { return r.Port(t.Target) })
		})
		if !reached && len(need.Targets) > 0 && !wrong[need.String()] {
			f := found(TLSPorts, object, "no pod that it selects has targetPort %s", need)
			f.at = []any{"spec", "ports"}
			out = append(out, f)
		}
	}
	return out
}

// selected returns the ports of each workload that the Service selects.
func (n Namespace) selected(svc *corev1.Service) []api.Reach {
	var out []api.Reach
	for _, w := range n.Workloads {
		pod := &corev1.Pod{ObjectMeta: w.Template.ObjectMeta, Spec: w.Template.Spec}
		if api.Selects(svc, pod) {
			out = append(out, api.ReachOf(pod))
		}
	}
	return out
}
