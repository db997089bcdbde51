package choose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
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
