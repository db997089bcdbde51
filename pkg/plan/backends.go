package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// backend is an annotation that tells an Ingress controller which protocol to use for a Service, or for the health
// checks of its pods.
type backend struct {
	class      string // part of the names of the IngressClasses that read it
	onService  bool   // the annotation of the Service counts, not that of the Ingress
	annotation string
	write      string // the value for TLS; %s is the name of the TLS port
	health     bool   // it is about health checks only
	isTLS      func(value string, to served) bool
}

// served is the target of a reference: a port of a Service.
type served struct {
	svc  *corev1.Service
	port int32 // 0 if it is not one of them
}

// name returns the name of the port.
func (s served) name() string {
	for _, p := range s.svc.Spec.Ports {
		if p.Port == s.port {
			return p.Name
		}
	}
	return ""
}

// backends are the annotations, from the documentation of each controller.
var backends = []backend{
	{class: "nginx", annotation: "nginx.ingress.kubernetes.io/backend-protocol", write: "HTTPS", isTLS: oneOf("https", "grpcs")},
	{class: "nginx", annotation: "nginx.org/ssl-services", write: "(the name of the Service)", isTLS: func(value string, to served) bool { return lists(value, to.svc.Name) }},
	{class: "haproxy", annotation: "haproxy.org/server-ssl", write: "true", isTLS: oneOf("true")},
	{class: "haproxy", annotation: "haproxy-ingress.github.io/backend-protocol", write: "h1-ssl", isTLS: oneOf("h1-ssl", "h2-ssl", "https", "grpcs")},
	{class: "alb", annotation: "alb.ingress.kubernetes.io/backend-protocol", write: "HTTPS", isTLS: oneOf("https")},
	{class: "alb", annotation: "alb.ingress.kubernetes.io/healthcheck-protocol", write: "HTTPS", health: true},
	{class: "gce", onService: true, annotation: "cloud.google.com/app-protocols", write: `{"%s":"HTTPS"}`, isTLS: func(value string, to served) bool {
		protocols := map[string]string{}
		_ = json.Unmarshal([]byte(value), &protocols) // an invalid value has no effect
		return slices.Contains([]string{"HTTPS", "HTTP2"}, protocols[to.name()])
	}},
	{class: "gce", onService: true, annotation: "cloud.google.com/backend-config", write: "(a BackendConfig whose healthCheck.type is HTTPS)", health: true},
	{class: "traefik", onService: true, annotation: "traefik.ingress.kubernetes.io/service.serversscheme", write: "https", isTLS: oneOf("https", "h2")},
	{class: "contour", onService: true, annotation: "projectcontour.io/upstream-protocol.tls", write: "%s", isTLS: func(value string, to served) bool {
		return lists(value, fmt.Sprint(to.port)) || to.name() != "" && lists(value, to.name())
	}},
}

func oneOf(values ...string) func(string, served) bool {
	return func(value string, _ served) bool { return slices.Contains(values, strings.ToLower(value)) }
}

// lists reports whether a comma-separated list contains the word.
func lists(list, word string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool { return strings.TrimSpace(s) == word })
}

// value returns the value of the annotation of the Ingress or the Service.
func (b backend) value(ingress Object, svc *corev1.Service) string {
	if b.onService {
		return svc.Annotations[b.annotation]
	}
	return str(at(ingress.Content, "metadata", "annotations"), b.annotation)
}

// backendSpeaks returns the protocol that the Ingress controller uses for the port, and for plaintext the annotations
// to change.
func (o Object) backendSpeaks(to served) (speaks Speaks, change []string) {
	class := cmp.Or(str(at(o.Content, "spec"), "ingressClassName"), str(at(o.Content, "metadata", "annotations"), "kubernetes.io/ingress.class"))
	for _, b := range backends {
		value := b.value(o, to.svc)
		if b.isTLS != nil && value != "" && b.isTLS(value, to) {
			return SpeaksTLS, nil
		}
		if value == "" && !strings.Contains(class, b.class) || value == "" && len(change) > 0 && !b.health {
			continue
		}
		where := "the Ingress"
		if b.onService {
			where = "the Service"
		}
		write := b.write
		if strings.Contains(write, "%s") {
			write = fmt.Sprintf(write, "(the name of the port with TLS)")
		}
		change = append(change, fmt.Sprintf("%s of %s: %s", b.annotation, where, write))
	}
	return SpeaksPlaintext, change
}

// healthChecks are the prefixes of the annotations for health checks by the load balancers of clouds.
var healthChecks = []string{
	"service.beta.kubernetes.io/aws-load-balancer-healthcheck-", "service.beta.kubernetes.io/aws-load-balancer-backend-protocol",
	"service.beta.kubernetes.io/azure-load-balancer-health-probe-", "service.beta.kubernetes.io/do-loadbalancer-healthcheck-",
	"service.beta.kubernetes.io/port_", "networking.gke.io/",
}

// checks returns the annotations of the Service that must be checked before plaintext is removed.
func checks(svc *corev1.Service) (out []string) {
	for name := range svc.Annotations {
		if slices.ContainsFunc(healthChecks, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
