package uninjected

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// BenchmarkDecide decides about a namespace of 5000 missed pods of 500 Deployments, with 50
// Services.
func BenchmarkDecide(b *testing.B) {
	s := Situation{Place: Place{OptedIn: true}, MaxEvents: 10}
	for i := range 50 {
		s.Place.Services = append(s.Place.Services, rotatortest.Service(fmt.Sprintf("s%02d", i), fmt.Sprintf("s%02d-tls", i), "app", fmt.Sprintf("checkout-backend-%d", i)))
	}
	for i := range 5000 {
		workload, hash := fmt.Sprintf("checkout-backend-%d", i/10%10), fmt.Sprintf("7d9f%06d", i/10)
		s.Pods = append(s.Pods, pods.FactsOf(rotatortest.Pod(
			rotatortest.Label("app", workload), rotatortest.Label("pod-template-hash", hash), rotatortest.Label("app.kubernetes.io/part-of", "payments"),
			func(p *corev1.Pod) {
				p.Name = fmt.Sprintf("%s-%s-%05d", workload, hash, i)
				p.OwnerReferences = append(p.OwnerReferences, rotatortest.ControlledBy("apps/v1", "ReplicaSet", workload+"-"+hash))
			},
		)))
	}
	var d Decision
	for b.Loop() {
		d = Decide(s)
	}
	require.Equal(b, 5000, d.Pods)
}

// BenchmarkConnections decides about a namespace of 30 000 pods of 3000 Deployments whose proxies connect: to 50 Services
// of another namespace, or to those of 2000 of their own that "*" admits. One of these has changed.
func BenchmarkConnections(b *testing.B) {
	for name, tt := range map[string]struct {
		connect  string
		services int
	}{"50 Services": {"", 0}, "all of 2000": {"*", 2000}} {
		b.Run(name, func(b *testing.B) {
			s := Situation{Place: Place{OptedIn: true}, MaxEvents: 10}
			for i := range tt.services {
				s.Place.Services = append(s.Place.Services, withPorts(fmt.Sprintf("s%04d", i), int32(5000+i)))
			}
			others := map[string]*corev1.Service{}
			for i := range 50 {
				others[fmt.Sprint("s", i)] = withPorts(fmt.Sprint("s", i), 80)
			}
			s.Place.Elsewhere = func(_, name string) *corev1.Service { return others[name] }
			entries := slices.Sorted(maps.Keys(others))
			connects := []string{"--connect=127.1.0.1:80=other.data.svc:443"} // which is not listed any more
			for i, name := range entries {
				connects = append(connects, fmt.Sprintf("--connect=127.1.0.%d:80=%s.data.svc:443", i+2, name))
			}
			always := corev1.ContainerRestartPolicyAlways
			for i := range 30_000 {
				s.Pods = append(s.Pods, pods.FactsOf(rotatortest.Pod(
					rotatortest.Label("app", fmt.Sprintf("s%04d", i/10)), rotatortest.Label("pod-template-hash", fmt.Sprintf("7d9f%06d", i/10)),
					rotatortest.Annotation(api.AnnotationConnect, cmp.Or(tt.connect, strings.Join(entries, ".data, ")+".data")),
					func(p *corev1.Pod) {
						p.Spec.InitContainers = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: connects}}
						p.OwnerReferences = append(p.OwnerReferences, rotatortest.ControlledBy("apps/v1", "ReplicaSet", fmt.Sprint("client-", i/10)))
					},
				)))
			}
			var d Decision
			for b.Loop() {
				d = Decide(s)
			}
			require.Equal(b, 30_000, d.Pods)
		})
	}
}

// withPorts returns a Service with a plaintext port and its TLS port.
func withPorts(name string, port int32) *corev1.Service {
	svc := rotatortest.Service(name, name+"-tls", "app", name)
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromInt32(8081)}, {Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8081")}}
	return svc
}
