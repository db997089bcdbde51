package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestTLSTargets(t *testing.T) {
	says := func(s string) *string { return &s }
	http, https := corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "https", Port: 10443}
	tests := []struct {
		name  string
		ports []corev1.ServicePort
		want  []intstr.IntOrString
	}{
		{"none", nil, nil},
		{"the only one, whatever it says", []corev1.ServicePort{http}, []intstr.IntOrString{intstr.FromInt32(80)}},
		{"by name", []corev1.ServicePort{http, https}, []intstr.IntOrString{intstr.FromInt32(10443)}},
		{"by a longer name", []corev1.ServicePort{http, {Name: "tls-admin", Port: 1}}, []intstr.IntOrString{intstr.FromInt32(1)}},
		{"by number", []corev1.ServicePort{http, {Name: "x", Port: 8443}}, []intstr.IntOrString{intstr.FromInt32(8443)}},
		{"by appProtocol", []corev1.ServicePort{http, {Port: 1, AppProtocol: says("https")}}, []intstr.IntOrString{intstr.FromInt32(1)}},
		{"by a qualified appProtocol", []corev1.ServicePort{http, {Port: 1, AppProtocol: says("kubernetes.io/wss")}}, []intstr.IntOrString{intstr.FromInt32(1)}},
		{"gRPC", []corev1.ServicePort{http, {Name: "grpcs", Port: 1}}, []intstr.IntOrString{intstr.FromInt32(1)}},
		{"a name that only begins so", []corev1.ServicePort{http, {Name: "httpsish", Port: 1}}, []intstr.IntOrString{intstr.FromInt32(80), intstr.FromInt32(1)}},
		{"nothing tells", []corev1.ServicePort{http, {Name: "x", Port: 1}}, []intstr.IntOrString{intstr.FromInt32(80), intstr.FromInt32(1)}},
		{"targetPort", []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("web")}, {Port: 8443, TargetPort: intstr.FromInt32(3)}}, []intstr.IntOrString{intstr.FromString("web"), intstr.FromInt32(3)}},
		{"UDP", []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolUDP}, http}, []intstr.IntOrString{intstr.FromInt32(80)}},
		{"UDP alone", []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolUDP}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, api.TLSTargets(&corev1.Service{Spec: corev1.ServiceSpec{Ports: tt.ports}}))
		})
	}
}

func TestProxyTargets(t *testing.T) {
	to := func(name string, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: 443, TargetPort: target}
	}
	udp := to("quic", intstr.FromString("sc-tls-1"))
	udp.Protocol = corev1.ProtocolUDP
	for want, ports := range map[string][]corev1.ServicePort{
		"":                         {to("https", intstr.FromInt32(8443)), to("x", intstr.FromString("sc-tls-")), udp},
		"sc-tls-8080":              {to("http", intstr.FromInt32(80)), to("a", intstr.FromString("sc-tls-8080")), to("b", intstr.FromString("sc-tls-8080"))},
		"sc-any-http, sc-tls-8080": {to("https", intstr.FromInt32(8443)), to("a", intstr.FromString("sc-any-http")), to("b", intstr.FromString("sc-tls-8080"))},
	} {
		assert.Equal(t, want, strings.Join(api.ProxyTargets(&corev1.Service{Spec: corev1.ServiceSpec{Ports: ports}}), ", "))
	}
}

func TestAdminOnly(t *testing.T) {
	port := func(name string, target any) corev1.ServicePort {
		p := corev1.ServicePort{Name: name, Port: 9000}
		switch to := target.(type) {
		case int:
			p.TargetPort = intstr.FromInt(to)
		case string:
			p.TargetPort = intstr.FromString(to)
		}
		return p
	}
	for _, tt := range []struct {
		service string
		ports   []corev1.ServicePort
		want    bool
	}{
		{"web-metrics", nil, false},
		{"web", []corev1.ServicePort{port("https", 8443)}, false},
		{"web", []corev1.ServicePort{port("metrics", 9090)}, true},
		{"web", []corev1.ServicePort{port("http-metrics", "http-metrics"), port("Admin", nil)}, true},
		{"web", []corev1.ServicePort{port("https", 8443), port("metrics", 9090)}, false},
		{"kong-admin", []corev1.ServicePort{port("kong-admin-tls", 8444)}, true},
		{"redis-metrics", []corev1.ServicePort{port("http", "metrics")}, true},
		{"redis-metrics", []corev1.ServicePort{port("", 9121)}, true},
		{"redis", []corev1.ServicePort{port("", 6379)}, false},
		{"redis", []corev1.ServicePort{port("", "exporter")}, true},
		{"kube-state-metrics", []corev1.ServicePort{port("http", 8080)}, false},
		{"phpldapadmin", []corev1.ServicePort{port("", 443)}, false},
		{"web", []corev1.ServicePort{port("administrator", 1)}, false},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: tt.ports}}
		svc.Name = tt.service
		assert.Equal(t, tt.want, api.AdminOnly(svc), "%s %v", tt.service, tt.ports)
	}
}
