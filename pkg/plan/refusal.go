package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// proxyRefusals are the reasons for which the webhook adds no proxy although a Service requests it.
var proxyRefusals = []reasons.Reason{
	reasons.ProxyUpstreamTLS, reasons.ProxyNoUpstream, reasons.ProxyNotTCP, reasons.ProxyTooManyPorts, reasons.ProxyNameTaken, reasons.ProxyHostNetwork,
}

// anyImage stands for the proxy's image, which a plan need not know.
const anyImage = "proxy"

// refusal returns the webhook's note if it would add no proxy at this targetPort of the Services to the pods of
// the workload. A pod with wrong annotations has none: doctor and analyze report it.
func (b *Builder) refusal(w Workload, target string, services ...*corev1.Service) (reasons.Note, bool) {
	known := b.known(w.Namespace, services...)
	known.ProxyImage = cmp.Or(known.ProxyImage, anyImage)
	_, report, _ := mutate.Mutate(w.Pod, known)
	i := slices.IndexFunc(report.Notes, func(n reasons.Note) bool {
		return slices.Contains(proxyRefusals, n.Reason) && (len(n.Ports) == 0 || slices.Contains(n.Ports, target))
	})
	if i < 0 {
		return reasons.Note{}, false
	}
	return report.Notes[i], true
}

// refusedByAll returns the webhook's sentence if none of the workloads would get the proxy; empty otherwise.
func (b *Builder) refusedByAll(svc *corev1.Service, target string, workloads []Workload) (why string) {
	for _, w := range workloads {
		note, refused := b.refusal(w, target, svc)
		if !refused {
			return ""
		}
		why = note.After(w.String() + ": ")
	}
	return why
}

// keepProposal withdraws the proposed proxy if the webhook would refuse it for a workload behind the port.
func (b *Builder) keepProposal(svc *corev1.Service, p corev1.ServicePort, servers []behind, out *Port) {
	added := p
	added.Name, added.TargetPort = "servingcert-proxy", intstr.FromString(out.Proxy)
	for _, w := range servers {
		note, refused := b.refusal(w.Workload, out.Proxy, asking(svc, p, added))
		if !refused {
			continue
		}
		out.Proxy, out.ProxyNot = "", note.After(w.String()+": ")
		if note.Reason == reasons.ProxyUpstreamTLS {
			out.Today, out.By = TodayDeclared, w.String()+" itself serves TLS on this port"
		}
		return
	}
}
