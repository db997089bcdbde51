package choose

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

// ports that pods use and Services have.
var somePorts = rapid.SampledFrom([]int32{80, 443, 1080, 8080})

// somePod draws a pod with whatever decides about its connections.
func somePod(t *rapid.T) *corev1.Pod {
	some := func(name string) bool { return rapid.IntRange(0, 4).Draw(t, name) == 0 }
	always := corev1.ContainerRestartPolicyAlways
	pod := cart(rapid.SampledFrom([]string{"api, web.data", "*", "web, api:80, web.data:443", "none"}).Draw(t, "connect"))
	if some("unlisted") {
		delete(pod.Annotations, api.AnnotationConnect)
	}
	pod.Spec.HostNetwork, pod.Spec.Hostname = some("host network"), rapid.SampledFrom([]string{"", "api", "x"}).Draw(t, "hostname")
	if some("aliases") {
		pod.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.9", Hostnames: []string{rapid.SampledFrom([]string{"api", "web.data.svc", "z"}).Draw(t, "alias")}}}
	}
	if some("sysctl") {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "100"}}}
	}
	container := func(name string) corev1.Container {
		c, port := corev1.Container{Name: name}, somePorts.Draw(t, name)
		switch rapid.IntRange(0, 7).Draw(t, name+" uses it") {
		case 0:
			c.Ports = []corev1.ContainerPort{{ContainerPort: port}}
		case 1:
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}}
		case 2:
			c.Env = []corev1.EnvVar{{Name: "LISTEN", Value: fmt.Sprint("localhost:", port)}}
		case 3:
			c.Args = []string{fmt.Sprint("--bind=:", port)}
		case 4:
			c.VolumeMounts = []corev1.VolumeMount{{MountPath: "/etc/hosts/"}}
		}
		return c
	}
	pod.Spec.Containers = []corev1.Container{container("a"), container("b")}
	pod.Spec.InitContainers = []corev1.Container{container("init"), container("native")}
	pod.Spec.InitContainers[1].RestartPolicy = &always
	if rapid.Bool().Draw(t, "proxy") {
		proxy := corev1.Container{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--cert-dir=/x", "--admin-address=127.0.0.1:1080", "--listen=sc-tls-8080=443:8080"}}
		if rapid.Bool().Draw(t, "connects") {
			proxy.Args = append(proxy.Args, "--connect=127.1.0.1:80=api.shop.svc:443,http")
			pod.Spec.HostAliases = append(pod.Spec.HostAliases, corev1.HostAlias{IP: "127.1.0.1", Hostnames: []string{"api", "api.shop", "api.shop.svc"}})
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, proxy)
	}
	if note := rapid.SampledFrom([]string{"", "", "", "ProxyNoImage: x"}).Draw(t, "note"); note != "" {
		pod.Annotations[api.AnnotationStatus] = api.InjectionStatus{Reason: "x", Notes: []string{note}}.Format()
	}
	return pod
}

// TestSketch: a pod and its sketch drift by the same Services, ports and kinds. Only the text differs that names the
// container which uses a port.
func TestSketch(t *testing.T) {
	var kinds []DifferenceKind
	rapid.Check(t, func(t *rapid.T) {
		pod := somePod(t)
		known := Known{In: "shop"}
		for _, name := range []string{"api", "web", "cart"} {
			svc := serviceOf("shop", name, tcp("http", somePorts.Draw(t, name), "8081"), tcp("https", somePorts.Draw(t, name+" TLS"), "sc-tls-8081"))
			if rapid.Bool().Draw(t, name+" has IPv6") {
				svc.Spec.ClusterIP = "fd00::1"
			}
			known.Services = append(known.Services, svc)
		}
		web := serviceOf("data", "web", tcp("https", 443, "sc-tls-8081"))
		known.Elsewhere = func(namespace, name string) *corev1.Service {
			if namespace+name == "dataweb" {
				return web
			}
			return nil
		}
		sketch := Sketch(pod)
		sketch.Labels, sketch.Namespace, sketch.Name = pod.Labels, pod.Namespace, pod.Name
		for _, c := range api.RunningContainers(pod) {
			if c.Name != api.ProxyContainer {
				sketch.Spec.Containers = append(sketch.Spec.Containers, corev1.Container{Name: "c", Ports: c.Ports})
			}
		}
		short := func(pod *corev1.Pod) (out []string) {
			for _, d := range Drift(pod, known) {
				kinds = append(kinds, d.Kind)
				out = append(out, fmt.Sprint(d.Kind, d.Service, d.have, d.want, d.lost))
			}
			return out
		}
		if want, got := short(pod), short(sketch); !assert.ObjectsAreEqual(want, got) {
			t.Fatalf("the pod: %v\nits sketch: %v", want, got)
		}
	})
	assert.NotEmpty(t, kinds)
	assert.Empty(t, Drift(WithoutDrift(), Known{In: "shop", Namespace: map[string]string{api.AnnotationConnect: "*"}, Services: []*corev1.Service{serviceOf("shop", "api", tcp("https", 443, "sc-tls-1"))}}))

	pod, api6 := cart("api"), serviceOf("shop", "api", tcp("https", 443, "sc-tls-1"))
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LISTEN", Value: "localhost:443"}}
	for ip, want := range map[string]int{"10.0.0.1": 1, "fd00::1": 0} {
		api6.Spec.ClusterIP = ip
		assert.Len(t, Drift(pod, Known{In: "shop", Services: []*corev1.Service{api6}}), want)
		assert.Len(t, Drift(Sketch(pod), Known{In: "shop", Services: []*corev1.Service{api6}}), want, "a program listens at the only loopback address of IPv6")
	}
}
