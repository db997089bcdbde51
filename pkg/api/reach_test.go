package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestDeclaresAny(t *testing.T) {
	c := ContainerRef{Container: &corev1.Container{Ports: []corev1.ContainerPort{
		{Name: "https", ContainerPort: 8443}, {ContainerPort: 9443, Protocol: corev1.ProtocolTCP}, {Name: "quic", ContainerPort: 4433, Protocol: corev1.ProtocolUDP},
	}}}
	for target, want := range map[intstr.IntOrString]bool{
		intstr.FromString("https"): true, intstr.FromInt32(8443): true, intstr.FromInt32(9443): true,
		intstr.FromString("http"): false, intstr.FromInt32(443): false, intstr.FromString("8443"): false, intstr.FromString(""): false,
		intstr.FromString("quic"): false, intstr.FromInt32(4433): false,
	} {
		assert.Equal(t, want, c.DeclaresAny(PortSetOf([]intstr.IntOrString{intstr.FromInt32(1), target})), target.String())
	}
	assert.False(t, c.DeclaresAny(nil))
}

func TestServes(t *testing.T) {
	ports := func(ports ...corev1.ServicePort) []corev1.ServicePort { return ports }
	to := func(name string, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: 1, TargetPort: target}
	}
	named, numbered := to("https", intstr.FromString("web")), to("https", intstr.FromInt32(8443))
	always := corev1.ContainerRestartPolicyAlways
	declares := func(p corev1.ContainerPort) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: "log"}, {Name: "web", Ports: []corev1.ContainerPort{p}}}}
	}
	inits := func(policy *corev1.ContainerRestartPolicy) corev1.PodSpec {
		return corev1.PodSpec{InitContainers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8443}}, RestartPolicy: policy}}}
	}
	for _, tt := range []struct {
		name    string
		pod     corev1.PodSpec
		ports   []corev1.ServicePort
		want    bool
		oneShot bool // what is wanted of the same pod as a Helm hook
	}{
		{"a number, declared", declares(corev1.ContainerPort{ContainerPort: 8443}), ports(numbered), true, true},
		{"a number, not declared", declares(corev1.ContainerPort{ContainerPort: 80}), ports(numbered), true, false},
		{"a number of UDP", declares(corev1.ContainerPort{ContainerPort: 8443, Protocol: corev1.ProtocolUDP}), ports(numbered), true, false},
		{"the default target", declares(corev1.ContainerPort{ContainerPort: 443}), ports(corev1.ServicePort{Port: 443}), true, true},
		{"a name, declared", declares(corev1.ContainerPort{Name: "web", ContainerPort: 8443}), ports(named), true, true},
		{"a name, not declared", declares(corev1.ContainerPort{Name: "other", ContainerPort: 8443}), ports(named), false, false},
		{"a name of UDP", declares(corev1.ContainerPort{Name: "web", ContainerPort: 8443, Protocol: corev1.ProtocolUDP}), ports(named), false, false},
		{"a name of a native sidecar", inits(&always), ports(named), true, true},
		{"a name of an init container", inits(nil), ports(named), false, false},
		{"of two TLS ports one", declares(corev1.ContainerPort{Name: "web", ContainerPort: 1}), ports(to("https-a", intstr.FromString("no")), named), true, true},
		{"of two TLS ports none", declares(corev1.ContainerPort{Name: "x", ContainerPort: 1}), ports(to("https-a", intstr.FromString("no")), named), false, false},
		{"only a port without TLS", declares(corev1.ContainerPort{Name: "http", ContainerPort: 80}), ports(named, to("http", intstr.FromString("http"))), false, false},
		{"no port says TLS", declares(corev1.ContainerPort{Name: "http", ContainerPort: 80}), ports(to("grpc", intstr.FromString("grpc")), to("http", intstr.FromString("http"))), true, true},
		{"no ports", declares(corev1.ContainerPort{ContainerPort: 80}), nil, true, false},
		{"UDP only", declares(corev1.ContainerPort{ContainerPort: 53}), ports(corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}), true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: tt.ports}}
			pod := &corev1.Pod{Spec: tt.pod}
			assert.Equal(t, tt.want, ReachOf(pod).Serves(svc))
			pod.Annotations = map[string]string{"helm.sh/hook": "test"}
			assert.Equal(t, tt.oneShot, ReachOf(pod).Serves(svc), "as a hook")
		})
	}
}
