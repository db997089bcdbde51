package status

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// PodPort is a port of a ready pod to which a Service leads.
type PodPort struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"` // KIND/NAME
	Pod       string `json:"pod"`
	Port      uint16 `json:"port"`
	// Services are SERVICE:PORT, sorted.
	Services []string `json:"services"`

	// Address is the pod's, Host the name to request, and Protocol the STARTTLS protocol.
	Address  string            `json:"-"`
	Host     string            `json:"-"`
	Protocol starttls.Protocol `json:"-"`
	// selecting are the Services. The leaf should have the names of each (api.MissingNames).
	selecting     []*corev1.Service
	clusterDomain string
	// renewedHere: the signer renews the certificate of one of the Services, at the time that it draws.
	renewedHere bool
	// secrets are the Secrets whose key the pod mounts.
	secrets []string
	// Guard is not nil if one of the Services lists its clients, and the pod's list has no api.ClientsWatch.
	Guard *probe.Guard `json:"-"`
	// Proxied: its proxy reads which clients it admits (dial.Client).
	Proxied bool `json:"-"`
	// named are the names of the ports of such a proxy.
	named []string
}

// Secrets returns the names of the Secrets whose key the pod mounts.
func (p PodPort) Secrets() []string { return p.secrets }

// Unseen counts what may serve clients and is not dialled.
type Unseen struct {
	PodsNotReady int `json:"podsNotReady"` // of those that Services select
	// ServicesWithoutSelector lead to addresses that somebody else writes.
	ServicesWithoutSelector int `json:"servicesWithoutSelector"`
}

// PodPorts returns the ports of the ready pods that the Services select, each once, in the order of
// namespace, workload, pod and port.
func PodPorts(services []corev1.Service, all []corev1.Pod, clusterDomain string) (ports []PodPort, unseen Unseen) {
	byNamespace := map[string][]*corev1.Service{}
	for i := range services {
		switch svc := &services[i]; {
		case svc.Spec.Type == corev1.ServiceTypeExternalName:
		case len(svc.Spec.Selector) == 0:
			unseen.ServicesWithoutSelector++
		default:
			byNamespace[svc.Namespace] = append(byNamespace[svc.Namespace], svc)
		}
	}
	for i := range all {
		pod := &all[i]
		switch found := portsOf(pod, byNamespace[pod.Namespace], clusterDomain); {
		case isReady(pod):
			ports = append(ports, found...)
		case len(found) > 0 && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			unseen.PodsNotReady++
		}
	}
	slices.SortFunc(ports, func(a, b PodPort) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Port, b.Port))
	})
	return ports, unseen
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func portsOf(pod *corev1.Pod, services []*corev1.Service, clusterDomain string) []PodPort {
	var out []PodPort
	for _, svc := range services {
		if !api.Selects(svc, pod) {
			continue
		}
		protocols := map[int32]starttls.Protocol{}
		for _, t := range api.ProbeTargets(svc) {
			protocols[t.Port] = t.Protocol
		}
		for _, p := range svc.Spec.Ports {
			number := numberOf(pod, p)
			if number == 0 {
				continue
			}
			i := slices.IndexFunc(out, func(have PodPort) bool { return have.Port == number })
			if i < 0 {
				out = append(out, newPodPort(pod, number, svc))
				i = len(out) - 1
				out[i].clusterDomain = clusterDomain
			}
			out[i].Services = append(out[i].Services, fmt.Sprintf("%s:%d", svc.Name, p.Port))
			out[i].Protocol = cmp.Or(out[i].Protocol, protocols[p.Port], starttls.OfPort(p.Name))
			requested, ok := ServiceOf(svc)
			out[i].renewedHere = out[i].renewedHere || ok && !requested.Followed()
			out[i].Proxied = out[i].Proxied || slices.Contains(out[i].named, p.TargetPort.StrVal)
			if guard := guardOf(pod, svc, p); guard != nil {
				out[i].Guard = guard
			}
			if !slices.Contains(out[i].selecting, svc) {
				out[i].selecting = append(out[i].selecting, svc)
			}
		}
	}
	for i := range out {
		slices.Sort(out[i].Services)
		out[i].Services = slices.Compact(out[i].Services)
	}
	return out
}

// guardOf returns what strangers need to know of a port with a proxy; nil if the Service does not list its clients, or the
// pod's list admits all to count them.
func guardOf(pod *corev1.Pod, svc *corev1.Service, p corev1.ServicePort) *probe.Guard {
	asks, proxied := api.ParseProxyPort(p.TargetPort.StrVal)
	if !proxied || !api.Guards(svc) {
		return nil
	}
	entries, _ := api.AdmittedAt(pod.Annotations[api.AnnotationAdmits], p.TargetPort.StrVal)
	if slices.Contains(entries, api.ClientsWatch) {
		return nil
	}
	return &probe.Guard{Plaintext: asks.Plaintext, Listed: probe.ListedIn(entries, pod.Namespace)}
}

func newPodPort(pod *corev1.Pod, number uint16, svc *corev1.Service) PodPort {
	facts := pods.FactsOf(pod)
	w := facts.Template.Value().Workload
	p := PodPort{
		Namespace: pod.Namespace, Pod: pod.Name, Port: number, Workload: w.Kind + "/" + w.Name,
		Address: pod.Status.PodIP, Host: svc.Name + "." + svc.Namespace + ".svc", named: facts.Template.Value().GuardedPorts(),
	}
	if w.Bare() {
		p.Workload = api.PodKind + "/" + pod.Name
	}
	for _, key := range facts.Keys() {
		if name, ok := key.Secret(); ok {
			p.secrets = append(p.secrets, name)
		}
	}
	return p
}

// numberOf returns the pod's port to which a port of the Service leads; 0 if it leads nowhere, or is
// not TCP.
func numberOf(pod *corev1.Pod, p corev1.ServicePort) uint16 {
	if cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP {
		return 0
	}
	target := api.TargetPort(p)
	if target.Type == intstr.Int {
		return uint16(target.IntVal) //nolint:gosec // the API server checks the range
	}
	for _, c := range api.RunningContainers(pod) {
		for _, have := range c.Ports {
			if have.Name == target.StrVal && cmp.Or(have.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				return uint16(have.ContainerPort) //nolint:gosec // as before
			}
		}
	}
	return 0
}
