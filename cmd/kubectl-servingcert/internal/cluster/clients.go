package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/pages"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/proxy/clients"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// maxConcurrent is the maximum number of concurrent requests to pods.
const maxConcurrent = 8

// Clients reads the clients from the proxies of the Service's pods, with a timeout for each, and the addresses of pods
// and nodes.
func (c *Cluster) Clients(ctx context.Context, cfg *rest.Config, name string, each time.Duration) (status.ClientsSituation, error) {
	svc, err := c.Client.CoreV1().Services(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return status.ClientsSituation{}, err
	}
	k, err := recorded(svc)
	if err != nil {
		return k, err
	}
	list, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(svc.Spec.Selector).String()})
	if err != nil {
		return k, fmt.Errorf("list pods: %w", err)
	}
	services, notSeen, err := c.besides(ctx, svc)
	if err != nil {
		return k, err
	}
	c.callers(ctx, forwarder{cfg, c.Client}, &k, list.Items, services, each)
	k.Places, k.NotSeen, err = c.places(ctx)
	k.NotSeen = append(k.NotSeen, notSeen...)
	return k, err
}

// recorded returns the ports of the Service at which proxies record clients, or an error if there are none.
func recorded(svc *corev1.Service) (status.ClientsSituation, error) {
	k := status.ClientsSituation{Namespace: svc.Namespace, Service: svc.Name, Object: svc}
	_, recorded := svc.Annotations[api.AnnotationClients]
	for _, p := range svc.Spec.Ports {
		if asked, ok := api.ParseProxyPort(p.TargetPort.StrVal); ok && !slices.Contains(k.Ports, asked.Name()) {
			k.Ports = append(k.Ports, asked.Name())
			recorded = recorded || asked.Plaintext
		}
	}
	if len(k.Ports) == 0 || !recorded {
		return k, fmt.Errorf("Service %s/%s has no port with targetPort sc-any-PORT: no proxy records plaintext to its other ports, or who calls its ports with targetPort sc-tls-PORT if the Service has no annotation %s",
			svc.Namespace, svc.Name, api.AnnotationClients)
	}
	if len(svc.Spec.Selector) == 0 {
		return k, fmt.Errorf("Service %s/%s has no selector, so its pods are unknown", svc.Namespace, svc.Name)
	}
	return k, nil
}

// callers asks the pods that the Service selects. services are those of its namespace.
func (c *Cluster) callers(ctx context.Context, f forwarder, k *status.ClientsSituation, selected []corev1.Pod, services []*corev1.Service, each time.Duration) {
	k.Direct = directPorts(k.Object, selected)
	k.Pods = c.ask(ctx, f, withProxy(selected), services, each)
}

// besides returns the Services of the namespace, which may guard the same ports, or only the given one if the user may
// not list them.
func (c *Cluster) besides(ctx context.Context, svc *corev1.Service) (services []*corev1.Service, notSeen []string, err error) {
	err = pages.Each(ctx, c.Client.CoreV1().Services(svc.Namespace), metav1.ListOptions{}, func(other *corev1.Service) { services = append(services, other) })
	if apierrors.IsForbidden(err) {
		return []*corev1.Service{svc}, []string{"other Services of the namespace: this user may not list them, so the pods may admit more clients"}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list Services: %w", err)
	}
	return services, nil, nil
}

// directPorts returns the ports of the Service that lead to the upstream of one of its proxy ports, by upstream.
func directPorts(svc *corev1.Service, all []corev1.Pod) map[string][]string {
	direct := map[string][]string{}
	for _, proxied := range svc.Spec.Ports {
		asked, ok := api.ParseProxyPort(proxied.TargetPort.StrVal)
		if !ok || len(direct[asked.Upstream]) > 0 {
			continue
		}
		upstream := numbersOf(intstr.Parse(asked.Upstream), all)
		for _, p := range svc.Spec.Ports {
			target := api.TargetPort(p)
			leads := slices.ContainsFunc(numbersOf(target, all), func(n int32) bool { return slices.Contains(upstream, n) })
			if leads && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
				direct[asked.Upstream] = append(direct[asked.Upstream], fmt.Sprintf("port %d (targetPort %s)", p.Port, target.String()))
			}
		}
	}
	return direct
}

// numbersOf returns the numbers of a targetPort in the pods, except where a proxy listens.
func numbersOf(target intstr.IntOrString, all []corev1.Pod) []int32 {
	if target.Type == intstr.Int {
		return []int32{target.IntVal}
	}
	var numbers []int32
	for i := range all {
		for _, c := range all[i].Spec.Containers {
			for _, p := range c.Ports {
				if p.Name == target.StrVal {
					numbers = append(numbers, p.ContainerPort)
				}
			}
		}
	}
	return numbers
}

// withProxy returns the running pods that have a proxy; other pods are not endpoints of its ports.
func withProxy(all []corev1.Pod) []corev1.Pod {
	var out []corev1.Pod
	for i := range all {
		pod := &all[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		if p, _ := api.ProxyOf(pod); len(p.Listeners) > 0 {
			out = append(out, *pod)
		}
	}
	return out
}

// ask returns the answers of all pods; failures are in Err. services are those of their namespace.
func (c *Cluster) ask(ctx context.Context, f forwarder, all []corev1.Pod, services []*corev1.Service, each time.Duration) []status.ProxyPod {
	out := make([]status.ProxyPod, len(all))
	atOnce(maxConcurrent, len(all), func(i int) {
		out[i].Name = all[i].Name
		p, _ := api.ProxyOf(&all[i])
		for _, l := range p.Listeners {
			out[i].Listens = append(out[i].Listens, l.Name)
		}
		if t := pods.FactsOf(&all[i]).Template.Value(); t.Guarded != "" {
			out[i].Admission = status.AdmissionOf(&all[i], services, t.GuardedPorts())
		}
		ctx, cancel := context.WithTimeoutCause(ctx, each, fmt.Errorf("no answer within %s", each))
		defer cancel()
		body, err := f.get(ctx, all[i].Namespace, all[i].Name, int(p.Admin), clients.Path)
		if err == nil {
			out[i].Answer, err = clients.Parse(body)
		}
		if err != nil {
			out[i].Err = err.Error()
		}
	})
	return out
}

// places returns the addresses of pods and nodes, and those that the user may not read.
func (c *Cluster) places(ctx context.Context) (places []status.Place, notSeen []string, err error) {
	pods := func(namespace string) error {
		return pages.Each(ctx, c.Client.CoreV1().Pods(namespace), metav1.ListOptions{}, func(pod *corev1.Pod) {
			places = append(places, placesOfPod(pod)...)
		})
	}
	if err = pods(""); apierrors.IsForbidden(err) {
		notSeen = append(notSeen, "pods of other namespaces: this user may not list them")
		err = pods(c.Namespace)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list pods: %w", err)
	}
	err = pages.Each(ctx, c.Client.CoreV1().Nodes(), metav1.ListOptions{}, func(node *corev1.Node) {
		places = append(places, placesOfNode(node)...)
	})
	if apierrors.IsForbidden(err) {
		return places, append(notSeen, "nodes: this user may not list them"), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	return places, notSeen, nil
}

// placesOfPod returns the addresses of a pod; none with hostNetwork.
func placesOfPod(pod *corev1.Pod) []status.Place {
	if pod.Spec.HostNetwork || pod.Status.StartTime == nil {
		return nil
	}
	name := pod.Namespace + " Pod/" + pod.Name
	if w := pods.FactsOf(pod).Template.Value().Workload; !w.Bare() {
		name = pod.Namespace + " " + w.Kind + "/" + w.Name
	}
	var out []status.Place
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			out = append(out, status.Place{Address: address.Unmap(), Name: name, Started: pod.Status.StartTime.Time})
		}
	}
	return out
}

// placesOfNode returns the source addresses of a node, and of traffic that it masquerades: its own, and
// the first of each of its pod CIDRs, which its bridge has.
func placesOfNode(node *corev1.Node) []status.Place {
	var out []status.Place
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, status.Place{Address: address.Unmap(), Name: node.Name, Node: true})
		}
	}
	for _, cidr := range node.Spec.PodCIDRs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			out = append(out, status.Place{Address: prefix.Masked().Addr().Next(), Name: node.Name, Node: true})
		}
	}
	return out
}
