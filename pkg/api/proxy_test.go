package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestProxyListener(t *testing.T) {
	for text, want := range map[string]ProxyListener{
		"sc-tls-8080=15444:8080":            {Name: "sc-tls-8080", Port: 15444, Upstream: 8080},
		"sc-any-http=15445:80,h2":           {Name: "sc-any-http", Port: 15445, Upstream: 80, H2: true},
		"sc-tls-1=1:65535,proxy-v2":         {Name: "sc-tls-1", Port: 1, Upstream: 65535, V2: true},
		"sc-tls-8080=15444:80,h2,proxy-v2":  {Name: "sc-tls-8080", Port: 15444, Upstream: 80, H2: true, V2: true},
		"sc-tls-8080=15444:15444":           {Name: "sc-tls-8080", Port: 15444, Upstream: 15444},
		"sc-tls-http-web=30000:15443":       {Name: "sc-tls-http-web", Port: 30000, Upstream: 15443},
		"sc-any-65535=65535:65535,proxy-v2": {Name: "sc-any-65535", Port: 65535, Upstream: 65535, V2: true},
	} {
		got, ok := ParseProxyListener(text)
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{
		"", "sc-tls-8080", "sc-tls-8080=15444", "sc-tls-8080=:8080", "sc-tls-8080=15444:", "sc-tls-8080=0:1", "sc-tls-8080=1:0",
		"sc-tls-8080=65536:1", "sc-tls-8080=01:1", "sc-tls-8080=1:1,", "sc-tls-8080=1:1,h3", "sc-tls-8080=1:1,proxy-v2,h2", "https=1:1",
		"sc-tls-8080=1:1:1",
	} {
		_, ok := ParseProxyListener(text)
		assert.False(t, ok, text)
	}
}

func TestProxyOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := corev1.Container{
		Name: ProxyContainer, RestartPolicy: &always,
		Args: []string{"--cert-dir=/x", "--admin-address=127.0.0.1:15443", "--listen=sc-tls-8080=15444:8080", "--listen", "--listen=x", "--listen=sc-any-80=15445:80,h2"},
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "migrate"}, sidecar}, Containers: []corev1.Container{{Name: "web"}}}}
	got, ok := ProxyOf(pod)
	assert.True(t, ok)
	assert.Equal(t, 1, got.Index)
	assert.EqualValues(t, 15443, got.Admin)
	assert.Equal(t, []ProxyListener{{Name: "sc-tls-8080", Port: 15444, Upstream: 8080}, {Name: "sc-any-80", Port: 15445, Upstream: 80, H2: true}}, got.Listeners)

	for why, change := range map[string]func(c *corev1.Container){
		"is not restarted":   func(c *corev1.Container) { c.RestartPolicy = nil },
		"listens nowhere":    func(c *corev1.Container) { c.Args = c.Args[:2] },
		"has another's name": func(c *corev1.Container) { c.Name = "proxy" },
	} {
		other := pod.DeepCopy()
		change(&other.Spec.InitContainers[1])
		_, ok := ProxyOf(other)
		assert.False(t, ok, why)
	}
}

// TestPortsOfProxiesServeTLS: if there is a proxy's port, ports that do not indicate TLS are plaintext.
func TestPortsOfProxiesServeTLS(t *testing.T) {
	port := func(name string, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: 80, TargetPort: target}
	}
	svc := func(ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: ports}}
	}
	plain, tls := intstr.FromInt32(8080), intstr.FromString("sc-tls-8080")
	assert.Equal(t, []intstr.IntOrString{tls}, TLSTargets(svc(port("http", plain), port("secure", tls))))
	assert.Equal(t, []intstr.IntOrString{tls, plain}, TLSTargets(svc(port("secure", tls), port("https", plain))))
	udp := port("secure", tls)
	udp.Protocol = corev1.ProtocolUDP
	assert.Equal(t, []intstr.IntOrString{plain}, TLSTargets(svc(port("http", plain), udp)))
}

// TestReachOfProxies: a proxy's port reaches a pod if the program's port does, or if a container
// declares the name.
func TestReachOfProxies(t *testing.T) {
	of := func(kind string, ports ...corev1.ContainerPort) Reach {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}}}
		if kind == "job" {
			pod.Annotations = map[string]string{helmHook: "test"}
		}
		return ReachOf(pod)
	}
	http := corev1.ContainerPort{Name: "http", ContainerPort: 8080}
	for _, tc := range []struct {
		reach  Reach
		target string
		want   bool
	}{
		{of("server"), "sc-tls-8080", true},
		{of("server"), "sc-tls-http", false},
		{of("server", http), "sc-tls-http", true},
		{of("server", http), "sc-any-http2", false},
		{of("job"), "sc-tls-8080", false},
		{of("job", http), "sc-tls-8080", true},
		{of("job", corev1.ContainerPort{Name: "sc-tls-8080", ContainerPort: 1}), "sc-tls-8080", true},
		{of("server", corev1.ContainerPort{Name: "sc-any-1", ContainerPort: 1}), "sc-tls-sc-any-1", true},
		{of("server"), "sc-tls-sc-any-1", false}, // a proxy of a proxy
	} {
		assert.Equal(t, tc.want, tc.reach.Port(intstr.FromString(tc.target)), tc.target)
	}
}

func TestSpeaksH2(t *testing.T) {
	h2c, grpc, https := "kubernetes.io/h2c", "grpc", "https"
	for _, p := range []corev1.ServicePort{{AppProtocol: &h2c}, {AppProtocol: &grpc}, {Name: "grpc"}, {Name: "grpc-web"}, {Name: "h2c-api"}} {
		assert.True(t, SpeaksH2(p), p.Name)
	}
	for _, p := range []corev1.ServicePort{{}, {AppProtocol: &https}, {Name: "https"}, {Name: "http2"}} {
		assert.False(t, SpeaksH2(p), p.Name)
	}
}

// TestProxyResources: amounts have the names that they have in a ResourceQuota.
func TestProxyResources(t *testing.T) {
	got, detail := ParseProxyResources(" limits.memory=128Mi , requests.cpu=0.5")
	assert.Empty(t, detail)
	assert.Equal(t, "128Mi", got.Limits.Memory().String())
	assert.Equal(t, "500m", got.Requests.Cpu().String())
	assert.Len(t, got.Requests, 1)
	assert.Len(t, got.Limits, 1)
	got, detail = ParseProxyResources(DefaultProxyResources)
	assert.Empty(t, detail)
	assert.Len(t, got.Requests, 2)
	assert.Len(t, got.Limits, 2)
	for value, says := range map[string]string{
		"":                          "must be a comma-separated list of requests.cpu, ",
		"cpu=1":                     "must be a comma-separated list of requests.cpu, ",
		"limits.cpu=much":           "each with an amount, such as limits.memory=128Mi",
		"limits.cpu=49m":            "limits.cpu must be between 50m and 8",
		"limits.memory=4097Mi":      "limits.memory must be between 32Mi and 4Gi",
		"requests.cpu=-1":           "each with an amount, such as limits.memory=128Mi",
		"requests.cpu=0":            "requests.cpu must be between 1m and 8",
		"limits.cpu=1e999999999":    "each with an amount, such as limits.memory=128Mi", // to compare it takes hours
		"limits.cpu=1e-999999999":   "each with an amount, such as limits.memory=128Mi",
		"limits.cpu=1,limits.cpu=1": "limits.cpu must be listed once",
		"limits.memory=64Mi,requests.memory=65Mi":                          "requests.memory must not be more than limits.memory",
		"limits.cpu=1,limits.cpu=1,limits.cpu=1,limits.cpu=1,limits.cpu=1": "5 amounts: must be at most 4",
		strings.Repeat("limits.cpu=1", 20):                                 "240 bytes: must be at most 128",
	} {
		_, detail := ParseProxyResources(value)
		assert.Contains(t, detail, says, value)
	}
}
