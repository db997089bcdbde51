package rotator

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// declares adds one in the pod's first container.
func declares(name string, number int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: name, ContainerPort: number})
	}
}

// mounted puts the pod's volumes into its first container.
func mounted(p *corev1.Pod) {
	for _, v := range p.Spec.Volumes {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: v.Name})
	}
}

func together(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, c := range changes {
			c(p)
		}
	}
}

func sidecar(always bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.Container{Name: "proxy", Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 15443}}}
		if policy := corev1.ContainerRestartPolicyAlways; always {
			c.RestartPolicy = &policy
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

// asking is a Service with ports, of targetPorts.
func asking(name string, selector map[string]string, targets ...any) *corev1.Service {
	svc := service(name, "web-tls")
	svc.Spec.Selector = selector
	for i, target := range targets {
		p := corev1.ServicePort{Port: int32(1000 + i), Protocol: corev1.ProtocolTCP}
		switch to := target.(type) {
		case int:
			p.TargetPort = intstr.FromInt(to)
		case string:
			p.TargetPort = intstr.FromString(to)
		case corev1.ServicePort:
			p = to
		}
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	return svc
}

func TestDoors(t *testing.T) {
	web := map[string]string{"app": "web"}
	udp := corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolUDP}
	tests := []struct {
		name     string
		pod      func(*corev1.Pod)
		services []*corev1.Service
		ports    []uint16
		sni      string
	}{
		{"a number", nil, []*corev1.Service{asking("web", web, 8443)}, []uint16{8443}, "web.shop.svc"},
		{"no targetPort", nil, []*corev1.Service{asking("web", web, corev1.ServicePort{Port: 443})}, []uint16{443}, "web.shop.svc"},
		{"a name", declares("https", 9000), []*corev1.Service{asking("web", web, "https")}, []uint16{9000}, "web.shop.svc"},
		{"a name of a native sidecar", sidecar(true), []*corev1.Service{asking("web", web, "https")}, []uint16{15443}, "web.shop.svc"},
		{"a name of an init container", sidecar(false), []*corev1.Service{asking("web", web, "https")}, nil, "web.shop.svc"},
		{"a name that no container has", declares("http", 80), []*corev1.Service{asking("web", web, "https")}, nil, "web.shop.svc"},
		{"a name of a UDP port", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "https", ContainerPort: 443, Protocol: corev1.ProtocolUDP}}
		}, []*corev1.Service{asking("web", web, "https")}, nil, "web.shop.svc"},
		{"UDP", nil, []*corev1.Service{asking("web", web, udp)}, nil, "web.shop.svc"},
		{"several", nil, []*corev1.Service{asking("web", web, 2, 1, 2)}, []uint16{1, 2}, "web.shop.svc"},
		{"those that say TLS", nil, []*corev1.Service{asking("web", web, 80, corev1.ServicePort{Name: "https", Port: 10443})}, []uint16{10443}, "web.shop.svc"},
		{"two Services, one selects", nil, []*corev1.Service{asking("api", map[string]string{"app": "api"}, 1), asking("web", web, 2)}, []uint16{2}, "web.shop.svc"},
		{"two Services, both select", nil, []*corev1.Service{asking("a", web, 1), asking("b", web, 1, 2)}, []uint16{1, 2}, "a.shop.svc"},
		{"selected by none: a Service without selector", declares("https", 7), []*corev1.Service{asking("other", map[string]string{"app": "x"}, 1), asking("open", nil, 2, "https")}, []uint16{2, 7}, "open.shop.svc"},
		{"selected by none: what its container declares", together(declares("http", 80), declares("x", 81), mounted), []*corev1.Service{asking("other", map[string]string{"app": "x"}, 1)}, []uint16{80, 81}, "other.shop.svc"},
		{"selected by none: what says TLS", together(declares("http", 80), declares("x", 8443), declares("https", 81), mounted), []*corev1.Service{asking("other", map[string]string{"app": "x"}, 1)}, []uint16{81, 8443}, "other.shop.svc"},
		{"selected by none: another container's", declares("https", 81), []*corev1.Service{asking("other", map[string]string{"app": "x"}, 1)}, nil, "other.shop.svc"},
		{"no Service", declares("https", 81), nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := FactsOf(webPod(func(p *corev1.Pod) {
				secretVolume("web-tls")(p)
				p.Spec.Containers = []corev1.Container{{}}
				if tt.pod != nil {
					tt.pod(p)
				}
			}))
			d := doorOf(f.Template.Value(), "web-tls", tt.services)
			assert.Equal(t, tt.ports, d.ports)
			assert.Equal(t, tt.sni, d.name)
		})
	}
}

func TestAPodIsNotDialledOnEveryPortOfAService(t *testing.T) {
	var targets []any
	for i := range 1000 {
		targets = append(targets, i+1)
	}
	d := doorOf(FactsOf(webPod(secretVolume("web-tls"))).Template.Value(), "web-tls", []*corev1.Service{asking("web", map[string]string{"app": "web"}, targets...)})
	assert.Len(t, d.ports, maxPorts)
}

func TestFiftyServicesOverOnePodAreOneDoor(t *testing.T) {
	var services []*corev1.Service
	for i := range 50 {
		services = append(services, asking(fmt.Sprintf("web-%02d", i), map[string]string{"app": "web"}, 8443))
	}
	d := doorOf(FactsOf(webPod(secretVolume("web-tls"))).Template.Value(), "web-tls", services)
	assert.Equal(t, []uint16{8443}, d.ports)
	assert.Equal(t, "web-00.shop.svc", d.name)
	assert.Len(t, d.services, 50)
}

func TestWhatIsKnownOfAPodsReadiness(t *testing.T) {
	ready := together(secretVolume("web-tls"), func(p *corev1.Pod) {
		p.UID, p.Status.PodIP, p.Status.Phase = "u", "10.0.0.7", corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{"ready", func(*corev1.Pod) {}, true},
		{"IPv6", func(p *corev1.Pod) { p.Status.PodIP = "fd00::7" }, true},
		{"no address", func(p *corev1.Pod) { p.Status.PodIP = "" }, false},
		{"no such address", func(p *corev1.Pod) { p.Status.PodIP = "ten" }, false},
		{"pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		{"not ready", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, false},
		{"no word of it", func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
		{"being deleted", func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp }, false},
		{"mounts nothing", func(p *corev1.Pod) { p.Spec.Volumes = nil }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := FactsOf(webPod(together(ready, tt.change)))
			assert.Equal(t, tt.want, f.Ready)
			require.Equal(t, FactsOf(webPod(secretVolume("web-tls"))).Template == f.Template, tt.name != "mounts nothing", "that is no matter of the template")
		})
	}
}
