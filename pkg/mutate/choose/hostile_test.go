package choose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/test/bounded"
)

func selectedBy(services ...*corev1.Service) (*corev1.Pod, Known) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	for i, s := range services {
		s.Name, s.Namespace, s.Spec.Selector = fmt.Sprintf("web-%04d", i), "shop", pod.Labels
	}
	return pod, Known{Services: services}
}

func asking(key, value string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationSecretName: "web-tls", key: value}}}
}

// TestHostileServicesCostLittle: the annotations of a Service in the pod's namespace cost a review
// no more than a few copies of the largest allowed values.
func TestHostileServicesCostLittle(t *testing.T) {
	const most = 256 << 10
	for _, key := range []string{api.AnnotationExtraDNSNames, api.AnnotationContainers, api.AnnotationDuration, api.AnnotationMountPath, api.AnnotationCertFlag} {
		for _, value := range []string{strings.Repeat("a,", most/2), strings.Repeat("a", most), strings.Repeat("a.web.shop.svc,", most/15)} {
			pod, known := selectedBy(asking(key, value))
			var choice Choice
			assert.Less(t, bounded.Allocated(func() { choice = Secret(pod, api.PodRequest{}, known) }), uint64(4*api.MaxAnnotation*bounded.RaceFactor), "%s: %.20s", key, value)
			assert.NotEmpty(t, choice.Notes, key)
			for _, n := range choice.Notes {
				assert.Less(t, len(n.Detail), 2000, key)
			}
		}
	}
}

// TestOnlySomeServicesAreExamined: many Services of one Secret with the largest number of names
// cost no more than maxExamined of them.
func TestOnlySomeServicesAreExamined(t *testing.T) {
	var names []string
	for i := range api.MaxNames - 2 {
		names = append(names, fmt.Sprintf("n%d.example.com", i))
	}
	cost := func(n int) (uint64, Choice) {
		var services []*corev1.Service
		for range n {
			services = append(services, asking(api.AnnotationExtraDNSNames, strings.Join(names, ",")+",-"))
		}
		pod, known := selectedBy(services...)
		var choice Choice
		return bounded.Allocated(func() { choice = Secret(pod, api.PodRequest{}, known) }), choice
	}
	some, _ := cost(maxExamined)
	many, choice := cost(20 * maxExamined)
	assert.Equal(t, maxExamined, len(choice.Notes)) //nolint:testifylint // Len would print all of them
	assert.Less(t, many, 3*some)
}

// TestTargetPortsAreASet: a port that Services name repeatedly is listed once.
func TestTargetPortsAreASet(t *testing.T) {
	var services []*corev1.Service
	for range 50 {
		s := asking("x", "y")
		s.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}}
		services = append(services, s)
	}
	pod, known := selectedBy(services...)
	assert.Len(t, Secret(pod, api.PodRequest{}, known).Ports, 1)
}

// TestTargetPortsOfAPodAreBounded: those of all Services together. The first count, in the order of the Services, and
// a note names the Service of the next one.
func TestTargetPortsOfAPodAreBounded(t *testing.T) {
	var services []*corev1.Service
	for i := range 40 {
		s := asking("x", "y")
		for j := range api.MaxPorts {
			target := intstr.FromInt32(int32(1000 + 200*i + j)) // some of them twice
			if j%2 == 1 {
				target = intstr.FromString(fmt.Sprintf("sc-tls-%d", 1000+200*i+j))
			}
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443, TargetPort: target})
		}
		services = append(services, s)
	}
	services[1].Spec.Ports[1].Name, services[2].Spec.Ports[1].Name = "grpc", "grpc"
	services[1].Spec.Ports[1].TargetPort, services[2].Spec.Ports[1].TargetPort = intstr.FromString("sc-tls-1001"), intstr.FromString("sc-tls-1401")
	pod, known := selectedBy(services...)
	choice := Secret(pod, api.PodRequest{}, known)
	assert.Equal(t, maxTargets/2, len(choice.Ports))   //nolint:testifylint // Len would print all of them
	assert.Equal(t, maxTargets/2, len(choice.Proxied)) //nolint:testifylint // the same
	assert.Equal(t, intstr.FromInt32(1254), choice.Ports[maxTargets/2-1])
	assert.Equal(t, "1255", choice.Proxied[maxTargets/2-1].Upstream)
	assert.True(t, choice.Proxied[0].H2, "as another Service asks for HTTP/2")
	assert.Equal(t, []reasons.Note{{Reason: reasons.TooManyPorts, Detail: "the first of them is of Service web-0001"}}, choice.Notes)

	_, known = selectedBy(services[0], services[0].DeepCopy())
	assert.Empty(t, Secret(pod, api.PodRequest{}, known).Notes, "each counts once")
}

// TestDeclaredPortsAreNotedOnce: however many Services have them.
func TestDeclaredPortsAreNotedOnce(t *testing.T) {
	var services []*corev1.Service
	for range 2 {
		s := asking("x", "y")
		s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 1, TargetPort: intstr.FromString("sc-tls-1")}, {Name: "b", Port: 2, TargetPort: intstr.FromString("sc-any-2")}}
		services = append(services, s)
	}
	pod, known := selectedBy(services...)
	pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "sc-any-2", ContainerPort: 2}, {Name: "sc-tls-1", ContainerPort: 1}}}}
	choice := Secret(pod, api.PodRequest{}, known)
	assert.Equal(t, []reasons.Note{{Reason: reasons.ProxyPortDeclared, Detail: "sc-tls-1"}, {Reason: reasons.ProxyPortDeclared, Detail: "sc-any-2"}}, choice.Notes)
	assert.Empty(t, choice.Proxied)
}
