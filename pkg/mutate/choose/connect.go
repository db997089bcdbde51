package choose

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// connect chooses the Services to which the pod's proxy connects. reserved are ports of the proxy.
func (c *Choice) connect(pod *corev1.Pod, request api.PodRequest, known Known, reserved []int32) {
	entries := request.Or(c.ServiceSettings).Or(c.NamespaceSettings).Connect
	c.Listed = entries
	if len(entries) == 0 {
		return
	}
	switch {
	case api.Exempt(pod, request) == api.ExemptWindows:
		c.note(reasons.Note{Reason: reasons.NotConnected, Detail: "the pod runs on Windows nodes, which have no proxy: let its programs use TLS themselves"})
		return
	case pod.Spec.HostNetwork || known.HostFiles != "":
		c.note(reasons.Note{Reason: reasons.NotConnected, Detail: "the pod uses the network of its node, whose loopback addresses are not the pod's alone: remove hostNetwork, or let its programs use TLS themselves"})
		return
	}
	client := connect.Client{
		Pod: pod, Namespace: cmp.Or(known.In, pod.Namespace), Used: append(c.listening(), led(pod, known.Services)...), Proxy: reserved,
		ClusterDomain: cmp.Or(known.ClusterDomain, api.DefaultLimits().ClusterDomain),
	}
	services := slices.Clone(known.Services)
	for _, e := range entries {
		namespace := cmp.Or(e.Namespace, client.Namespace)
		switch {
		case e == (api.Connect{}):
		case namespace == client.Namespace:
			if !slices.ContainsFunc(services, func(svc *corev1.Service) bool { return svc.Name == e.Service && api.Asks(svc) }) {
				c.Missing = with(c.Missing, namespace)
			}
		default:
			var svc *corev1.Service
			if known.Elsewhere != nil {
				svc = known.Elsewhere(namespace, e.Service)
			}
			if svc == nil {
				c.Missing = with(c.Missing, namespace)
				continue
			}
			services = append(services, svc)
		}
	}
	c.Connect, c.Left = connect.Targets(client, entries, services)
	for _, l := range c.Left {
		if _, namespace, _ := strings.Cut(l.Service, "."); l.Doubt {
			c.Doubtful = with(c.Doubtful, namespace)
		}
	}
	for i, l := range c.Left {
		if i == maxLeft {
			c.note(reasons.Note{Reason: reasons.NotConnected, Detail: strconv.Itoa(len(c.Left)-maxLeft) + " more Services"})
			break
		}
		c.note(reasons.Note{Reason: reasons.NotConnected, Detail: l.Service + ": " + l.Why})
	}
}

// with returns the names with another one, once.
func with(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// maxLeft bounds the notes about Services that are left out.
const maxLeft = 10

// led returns the numbers of the pod's TCP ports to which Services lead that request a certificate and select the pod,
// with TLS or without.
func led(pod *corev1.Pod, services []*corev1.Service) (ports []int32) {
	for _, svc := range services {
		if !api.Asks(svc) || !api.Selects(svc, pod) {
			continue
		}
		for _, p := range svc.Spec.Ports {
			target := api.TargetPort(p)
			if asked, ok := api.ParseProxyPort(target.StrVal); ok {
				target = asked.UpstreamPort()
			}
			if number := target.IntVal; number != 0 && cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				ports = append(ports, number)
			}
		}
	}
	return ports
}

// listening returns the ports on which programs of the pod listen according to the Services that
// select it.
func (c *Choice) listening() (ports []int32) {
	for _, p := range c.Proxied {
		ports = append(ports, p.UpstreamPort().IntVal)
	}
	for _, target := range c.Ports {
		ports = append(ports, target.IntVal)
	}
	return slices.DeleteFunc(ports, func(port int32) bool { return port == 0 })
}
