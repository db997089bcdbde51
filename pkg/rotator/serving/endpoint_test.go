package serving

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func sidecar(always bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.Container{Name: "proxy", Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 15443}}}
		if policy := corev1.ContainerRestartPolicyAlways; always {
			c.RestartPolicy = &policy
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

func TestEndpoints(t *testing.T) {
	web := map[string]string{"app": "web"}
	hook := rotatortest.Annotation("helm.sh/hook", "test")
	udp := corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolUDP}
	tests := []struct {
		name     string
		pod      func(*corev1.Pod)
		services []*corev1.Service
		ports    []uint16
		sni      string
	}{
		{"a number", nil, []*corev1.Service{rotatortest.Asking("web", web, 8443)}, []uint16{8443}, "web.shop.svc"},
		{"numbers of no port", nil, []*corev1.Service{rotatortest.Asking("web", web, -1, 1<<16, corev1.ServicePort{})},
			nil, "web.shop.svc"},
		{"no targetPort", nil, []*corev1.Service{rotatortest.Asking("web", web, corev1.ServicePort{Port: 443})}, []uint16{443}, "web.shop.svc"},
		{"a name", rotatortest.Declares("https", 9000), []*corev1.Service{rotatortest.Asking("web", web, "https")}, []uint16{9000}, "web.shop.svc"},
		{"a name of a native sidecar", sidecar(true), []*corev1.Service{rotatortest.Asking("web", web, "https")}, []uint16{15443}, "web.shop.svc"},
		{"a name of an init container", sidecar(false), []*corev1.Service{rotatortest.Asking("web", web, "https")}, nil, "web.shop.svc"},
		{"a name that no container has", rotatortest.Declares("http", 80), []*corev1.Service{rotatortest.Asking("web", web, "https")}, nil, "web.shop.svc"},
		{"a name of a UDP port", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "https", ContainerPort: 443, Protocol: corev1.ProtocolUDP}}
		}, []*corev1.Service{rotatortest.Asking("web", web, "https")}, nil, "web.shop.svc"},
		{"a number that a Helm hook does not declare", rotatortest.All(hook, rotatortest.Declares("http", 80)), []*corev1.Service{rotatortest.Asking("web", web, 8443)}, nil, "web.shop.svc"},
		{"a number that a Helm hook declares", rotatortest.All(hook, rotatortest.Declares("", 8443)), []*corev1.Service{rotatortest.Asking("web", web, 8443)}, []uint16{8443}, "web.shop.svc"},
		{"UDP", nil, []*corev1.Service{rotatortest.Asking("web", web, udp)}, nil, "web.shop.svc"},
		{"several", nil, []*corev1.Service{rotatortest.Asking("web", web, 2, 1, 2)}, []uint16{1, 2}, "web.shop.svc"},
		{"those that say TLS", nil, []*corev1.Service{rotatortest.Asking("web", web, 80, corev1.ServicePort{Name: "https", Port: 10443})}, []uint16{10443}, "web.shop.svc"},
		{"two Services, one selects", nil, []*corev1.Service{rotatortest.Asking("api", map[string]string{"app": "api"}, 1), rotatortest.Asking("web", web, 2)}, []uint16{2}, "web.shop.svc"},
		{"two Services, both select", nil, []*corev1.Service{rotatortest.Asking("a", web, 1), rotatortest.Asking("b", web, 1, 2)}, []uint16{1, 2}, "a.shop.svc"},
		{"selected by none: a Service without selector", rotatortest.Declares("https", 7), []*corev1.Service{rotatortest.Asking("other", map[string]string{"app": "x"}, 1), rotatortest.Asking("open", nil, 2, "https")}, []uint16{2, 7}, "open.shop.svc"},
		{"selected by none: what its container declares", rotatortest.All(rotatortest.Declares("http", 80), rotatortest.Declares("x", 81), rotatortest.Mounted), []*corev1.Service{rotatortest.Asking("other", map[string]string{"app": "x"}, 1)}, []uint16{80, 81}, "other.shop.svc"},
		{"not selected: TLS by name or number", rotatortest.All(rotatortest.Declares("http", 80), rotatortest.Declares("x", 8443), rotatortest.Declares("https", 81), rotatortest.Mounted), []*corev1.Service{rotatortest.Asking("other", map[string]string{"app": "x"}, 1)}, []uint16{81, 8443}, "other.shop.svc"},
		{"selected by none: another container's", rotatortest.Declares("https", 81), []*corev1.Service{rotatortest.Asking("other", map[string]string{"app": "x"}, 1)}, nil, "other.shop.svc"},
		{"a mirror pod, selected", rotatortest.Mirror("cp-1"), []*corev1.Service{rotatortest.Asking("web", web, 10259)}, []uint16{10259}, "web.shop.svc"},
		{"a mirror pod, selected by none", rotatortest.All(rotatortest.Mirror("cp-1"), rotatortest.Declares("https", 81)), []*corev1.Service{rotatortest.Asking("other", map[string]string{"app": "x"}, 1), rotatortest.Asking("open", nil, 2)}, nil, ""},
		{"no Service", rotatortest.Declares("https", 81), nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := pods.FactsOf(rotatortest.Pod(func(p *corev1.Pod) {
				rotatortest.SecretVolume("web-tls")(p)
				p.Spec.Containers = []corev1.Container{{}}
				if tt.pod != nil {
					tt.pod(p)
				}
			}))
			d := endpointOf(f.Template.Value(), "web-tls", tt.services)
			assert.Equal(t, tt.ports, d.ports)
			assert.Equal(t, tt.sni, d.name)
		})
	}
}

func TestStartTLS(t *testing.T) {
	web := map[string]string{"app": "web"}
	named := func(name string, port int32) corev1.ServicePort { return corev1.ServicePort{Name: name, Port: port} }
	known := rotatortest.All(rotatortest.Label(api.LabelInjected, "true"),
		rotatortest.Annotation(api.AnnotationStatus, api.InjectionStatus{StartTLS: map[string]string{"5432": "postgres", "25": "smtp"}}.Format()))
	tests := []struct {
		name     string
		pod      func(*corev1.Pod)
		services []*corev1.Service
		want     map[uint16]starttls.Protocol // of the endpoint's ports
	}{
		{"the Service's port", nil, []*corev1.Service{rotatortest.Asking("web", web, named("postgres", 5000), named("http", 80))}, startTLS{5000: starttls.Postgres, 80: ""}},
		{"a name of the pod's port", rotatortest.Declares("ldap", 389), []*corev1.Service{rotatortest.Asking("web", web, "ldap")}, startTLS{389: starttls.LDAP}},
		{"a proxy", sidecar(true), []*corev1.Service{rotatortest.Asking("web", web, "https")}, startTLS{15443: ""}},
		{"of two Services the older", nil, []*corev1.Service{rotatortest.Asking("a", web, named("http", 25)), rotatortest.Asking("b", web, named("smtp", 25)), rotatortest.Asking("c", web, named("imap", 25))}, startTLS{25: starttls.SMTP}},
		{"the program", known, []*corev1.Service{rotatortest.Asking("web", web, 5432, 80)}, startTLS{5432: starttls.Postgres, 80: ""}},
		{"the Service before the program", known, []*corev1.Service{rotatortest.Asking("web", web, named("mysql", 5432), named("smtps", 25))}, startTLS{5432: starttls.MySQL, 25: starttls.TLS}},
		{"no Service selects the pod", rotatortest.All(rotatortest.Declares("imap", 143), rotatortest.Mounted), []*corev1.Service{rotatortest.Asking("other", map[string]string{"app": "x"}, 1)}, startTLS{143: starttls.IMAP}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := pods.FactsOf(rotatortest.Pod(func(p *corev1.Pod) {
				rotatortest.SecretVolume("web-tls")(p)
				p.Spec.Containers = []corev1.Container{{}}
				if tt.pod != nil {
					tt.pod(p)
				}
			}))
			at := endpointOf(f.Template.Value(), "web-tls", tt.services)
			got := map[uint16]starttls.Protocol{}
			for _, port := range at.ports {
				got[port] = at.protocols[port]
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// An answer in another protocol is ignored.
func TestAnswerInOtherProtocolIsIgnored(t *testing.T) {
	before := podState{answers: []probe.Answer{{Port: 25, Kind: probe.Plaintext}, {Port: 80, Kind: probe.Plaintext}}}
	at := &endpoint{ports: []uint16{25, 80}, protocols: startTLS{25: starttls.SMTP}}
	c := newConsumer(pods.FactsOf(rotatortest.ReadyPod("a", "web")), at, &before, rotatortest.Noon)
	assert.Equal(t, before.answers[1:], c.answers)
	ports, _ := c.due(rotatortest.Noon, testPace)
	assert.Contains(t, ports, uint16(25), "a port without TLS would be left alone for an interval")
}

func TestAPodIsNotDialledOnEveryPortOfAService(t *testing.T) {
	var targets []any
	for i := range api.MaxPorts {
		targets = append(targets, i+1)
	}
	d := endpointOf(pods.FactsOf(rotatortest.Pod(rotatortest.SecretVolume("web-tls"))).Template.Value(), "web-tls", []*corev1.Service{rotatortest.Asking("web", map[string]string{"app": "web"}, targets...)})
	assert.Len(t, d.ports, probe.MaxPorts)
}
