package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
)

// egress returns a note for each workload behind the Service to which the NetworkPolicies of the client's pods admit
// the plaintext port and not the TLS port.
func (a after) egress(client Workload, k key, ports []connect.Port) (notes []string) {
	var limits []*networkingv1.NetworkPolicy
	for _, p := range a.policies[client.Namespace] {
		if limitsEgress(p, client.Pod) {
			limits = append(limits, p)
		}
	}
	if len(limits) == 0 {
		return nil
	}
	svc := a.services[k]
	for _, server := range a.behind(svc) {
		for _, p := range ports {
			plain, tls := a.podPort(svc, p.Port, server), a.podPort(svc, p.TLS, server)
			if plain.number == 0 || tls.number == 0 || plain.number == tls.number {
				continue
			}
			names, admitted := []string{}, false
			for _, policy := range limits {
				if admits(policy, server, plain) {
					names = append(names, policy.Name)
				}
				admitted = admitted || admits(policy, server, tls)
			}
			if len(names) > 0 && !admitted {
				slices.Sort(names)
				notes = appendNew(notes, fmt.Sprintf("NetworkPolicy %s limits the egress of %s: allow port %d of %s in it too, where port %d of %s has TLS (see %sinjection.md)",
					strings.Join(names, ", "), client, tls.number, server, p.Port, k, api.Documentation))
			}
		}
	}
	return notes
}

// podPort is a port of a pod, and its name.
type podPort struct {
	number int32
	name   string
}

// podPort returns the port of the workload's pods to which a port of the Service leads; zero if it is unknown. That of a
// proxy is the usual one.
func (a after) podPort(svc *corev1.Service, number int32, server Workload) podPort {
	i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == number && cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP
	})
	if i < 0 {
		return podPort{}
	}
	target := api.TargetPort(svc.Spec.Ports[i])
	if asked, ok := api.ParseProxyPort(target.StrVal); ok && target.Type == intstr.String {
		return podPort{a.usual(server, asked), asked.Name()}
	}
	to := leadsTo(target, []Workload{server})
	if len(to) == 0 {
		return podPort{}
	}
	out := podPort{number: to[0].port, name: target.StrVal}
	for _, c := range api.RunningContainers(server.Pod) {
		for _, p := range c.Ports {
			if p.ContainerPort == out.number && out.name == "" {
				out.name = p.Name
			}
		}
	}
	return out
}

// usual returns the number that the proxy's port usually has in the pods of the workload.
func (a after) usual(server Workload, asked api.ProxyPort) int32 {
	proxied := slices.Clone(a.choose(server, nil, nil).Proxied)
	plaintext := func(p sidecar.Port) int {
		if p.Plaintext {
			return 1
		}
		return 0
	}
	slices.SortFunc(proxied, func(x, y sidecar.Port) int { // as the webhook numbers them
		return cmp.Or(plaintext(x)-plaintext(y), cmp.Compare(x.Name(), y.Name()))
	})
	i := slices.IndexFunc(proxied, func(p sidecar.Port) bool { return p.ProxyPort == asked })
	return sidecar.FirstPort + int32(max(i, 0))
}

// limitsEgress reports whether the policy selects the pod and limits egress. Without policyTypes, one does that if it
// has rules for it.
func limitsEgress(p *networkingv1.NetworkPolicy, pod *corev1.Pod) bool {
	if !selectsPod(p.Spec.PodSelector, pod) {
		return false
	}
	return len(p.Spec.PolicyTypes) == 0 && len(p.Spec.Egress) > 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

func selectsPod(s metav1.LabelSelector, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// admits reports whether a rule of the policy may allow the egress to the port of the workload's pods. The labels of
// namespaces and blocks of addresses are not compared: such a peer counts.
func admits(p *networkingv1.NetworkPolicy, server Workload, port podPort) bool {
	return slices.ContainsFunc(p.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		to := len(rule.To) == 0 || slices.ContainsFunc(rule.To, func(peer networkingv1.NetworkPolicyPeer) bool {
			switch {
			case peer.IPBlock != nil:
				return true
			case peer.NamespaceSelector == nil && server.Namespace != p.Namespace:
				return false
			}
			return peer.PodSelector == nil || selectsPod(*peer.PodSelector, server.Pod)
		})
		return to && (len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, port.in))
	})
}

// in reports whether a port of a rule is the TCP port.
func (p podPort) in(allowed networkingv1.NetworkPolicyPort) bool {
	switch {
	case allowed.Protocol != nil && *allowed.Protocol != corev1.ProtocolTCP:
		return false
	case allowed.Port == nil:
		return true
	case allowed.Port.Type == intstr.String:
		return p.name == allowed.Port.StrVal
	case allowed.EndPort != nil:
		return allowed.Port.IntVal <= p.number && p.number <= *allowed.EndPort
	}
	return allowed.Port.IntVal == p.number
}
