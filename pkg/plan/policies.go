package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
	"github.com/servingcert/servingcert/pkg/preview"
)

// networkPolicy records a NetworkPolicy.
func (b *Builder) networkPolicy(o Object) {
	policy := &networkingv1.NetworkPolicy{}
	if err := preview.Convert(o.Content, policy); err != nil {
		b.Unread(fmt.Sprintf("NetworkPolicy %s/%s: %v", o.Namespace, o.Name, err))
		return
	}
	policy.Namespace, policy.Name = o.Namespace, o.Name
	b.policies[o.Namespace] = append(b.policies[o.Namespace], policy)
}

// blocked returns a note about the NetworkPolicies that limit the ingress of the workload if none of them allows the
// proxy's port. Empty if one allows it, or none limits the pods.
func (b *Builder) blocked(w Workload) string {
	var names []string
	for _, p := range b.policies[w.Namespace] {
		if !limitsIngress(p, w.Pod) {
			continue
		}
		if allows(p, sidecar.FirstPort) {
			return ""
		}
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("NetworkPolicy %s limits the ingress of %s: allow the proxy's port in it, usually %d (see %sinjection.md)",
		strings.Join(names, ", "), w, sidecar.FirstPort, api.Documentation)
}

// limitsIngress reports whether the policy selects the pod and limits ingress.
func limitsIngress(p *networkingv1.NetworkPolicy, pod *corev1.Pod) bool {
	if !selectsPod(p.Spec.PodSelector, pod) {
		return false
	}
	return len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
}

// allows reports whether a rule of the policy allows the TCP port. A named port of a proxy counts, because its
// number is unknown here.
func allows(p *networkingv1.NetworkPolicy, port int32) bool {
	return slices.ContainsFunc(p.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
		return len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(a networkingv1.NetworkPolicyPort) bool {
			switch {
			case a.Protocol != nil && *a.Protocol != corev1.ProtocolTCP:
				return false
			case a.Port == nil:
				return true
			case a.Port.Type == intstr.String:
				_, ok := api.ParseProxyPort(a.Port.StrVal)
				return ok
			case a.EndPort != nil:
				return a.Port.IntVal <= port && port <= *a.EndPort
			}
			return a.Port.IntVal == port
		})
	})
}
