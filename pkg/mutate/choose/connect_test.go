package choose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

func tcp(name string, port int32, target string) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.Parse(target)}
}

func serviceOf(namespace, name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", Selector: map[string]string{"app": name}, Ports: ports},
	}
}

// cart is a pod that connects, and that Service cart selects.
func cart(connect string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "cart-0", Namespace: "shop", Labels: map[string]string{"app": "cart"}, Annotations: map[string]string{api.AnnotationConnect: connect}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "cart"}}},
	}
}

// chosen decides about a pod of namespace shop. The other Services are in any namespace.
func chosen(t *testing.T, pod *corev1.Pod, services ...*corev1.Service) Choice {
	t.Helper()
	request, err := api.ParsePod(&pod.ObjectMeta)
	require.NoError(t, err)
	known := Known{In: "shop", Elsewhere: func(namespace, name string) *corev1.Service {
		for _, svc := range services {
			if svc.Namespace == namespace && svc.Name == name {
				return svc
			}
		}
		return nil
	}}
	for _, svc := range services {
		if svc.Namespace == "shop" {
			known.Services = append(known.Services, svc)
		}
	}
	return Secret(pod, request, known)
}

// leftOut returns why Services are left out.
func leftOut(c Choice) string {
	var all []string
	for _, n := range c.Notes {
		all = append(all, n.Detail)
	}
	return strings.Join(all, "; ")
}

// TestPortsOfTheProxyItself: a Service does not take those on which the proxy serves: NetworkPolicies name them, and
// those of an existing one stay.
func TestPortsOfTheProxyItself(t *testing.T) {
	pod := cart("db.data")
	for _, number := range []int32{15443, 15444, 15443 + api.MaxProxyPorts} {
		c := chosen(t, pod, serviceOf("data", "db", tcp("postgres", number, "sc-tls-5432")))
		assert.Empty(t, c.Connect)
		assert.Contains(t, leftOut(c), "is used in the pod itself (its proxy serves there, or may)", number)
	}
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--admin-address=127.0.0.1:7000", "--listen=sc-tls-8080=7001:8080"}}}
	for _, number := range []int32{7000, 7001} {
		c := chosen(t, pod, serviceOf("data", "db", tcp("postgres", number, "sc-tls-5432")))
		assert.Empty(t, c.Connect)
		assert.Contains(t, leftOut(c), "is used in the pod itself (its proxy serves there, or may)", number)
	}
}

// TestPortsToWhichServicesLead: a program listens where a Service leads to it, with TLS or without, and whatever Secret
// the Service requests.
func TestPortsToWhichServicesLead(t *testing.T) {
	own := serviceOf("shop", "cart", tcp("http", 80, "8080"), tcp("grpc", 9000, "9000"), tcp("https", 443, "sc-tls-8080"))
	second := serviceOf("shop", "other", tcp("same", 9001, "0"), tcp("https", 443, "sc-tls-9002"))
	second.Spec.Selector = own.Spec.Selector
	udp := tcp("dns", 53, "9003")
	udp.Protocol = corev1.ProtocolUDP
	own.Spec.Ports = append(own.Spec.Ports, udp)
	for number, connected := range map[int32]bool{8080: false, 9000: false, 9001: false, 9002: false, 9003: true, 80: true} {
		c := chosen(t, cart("api"), own, second, serviceOf("shop", "api", tcp("tls", number, "sc-tls-1")))
		assert.Equal(t, connected, len(c.Connect) == 1, number)
		if !connected {
			assert.Contains(t, leftOut(c), "is used in the pod itself (a Service selects the pod with it)")
		}
	}
}

// TestNone: one pod opts out of what its Namespace lists.
func TestNone(t *testing.T) {
	svc := serviceOf("shop", "api", tcp("tls", 5432, "sc-tls-5432"))
	pod := cart("none")
	known := Known{In: "shop", Services: []*corev1.Service{svc}, Namespace: map[string]string{api.AnnotationConnect: "*"}}
	request, err := api.ParsePod(&pod.ObjectMeta)
	require.NoError(t, err)
	assert.Empty(t, Secret(pod, request, known).Connect)
	assert.Len(t, Secret(pod, api.PodRequest{}, known).Connect, 1)
}
