package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endpointsOf returns one endpoint of a port of Service shop/web.
func endpointsOf(port string, ready *bool) Endpoints {
	e := Endpoints{}
	e.Add(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports:      []discoveryv1.EndpointPort{{Name: &port}},
		Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
	})
	return e
}

// TestDoneNeedsEvidence: in a cluster, a port that requests the proxy is done when it has a ready endpoint, and a port that the
// program serves when condition Serving is Current.
func TestDoneNeedsEvidence(t *testing.T) {
	yes, no := true, false
	asks := annotated("servingcert.dev/secret-name", "web-tls")
	target := func(name string) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			svc.Spec.Ports[0].TargetPort = intstr.FromString(name)
		}
	}
	web := pod("web", map[string]string{"app": "web"}, 8080)
	for name, tt := range map[string]struct {
		endpoints Endpoints
		way       Way
		why       string
	}{
		"manifests":             {nil, WayDone, ""},
		"no endpoint":           {Endpoints{}, WayRollout, "port 8080: no ready pod has the proxy of this port"},
		"one of another port":   {endpointsOf("http", &yes), WayRollout, "port 8080: no ready pod has the proxy of this port"},
		"one that is not ready": {endpointsOf("p", &no), WayRollout, "port 8080: no ready pod has the proxy of this port"},
		"a ready one":           {endpointsOf("p", &yes), WayDone, ""},
		"one without a state":   {endpointsOf("p", nil), WayDone, ""},
	} {
		b := New([]*corev1.Service{selecting("web", 8080, "app=web", asks, target("sc-tls-8080"))}, nil, Options{Endpoints: tt.endpoints})
		b.AddWorkload(web)
		s := b.Plan().Services[0]
		assert.Equal(t, tt.way, s.Way, name)
		assert.Equal(t, tt.why, s.Why, name)
		assert.Equal(t, tt.way == WayRollout, s.Wave == 1, name)
	}

	always := corev1.ContainerRestartPolicyAlways
	with, old := web.Pod.DeepCopy(), web.Pod
	with.Spec.InitContainers = []corev1.Container{{Name: "servingcert-proxy", RestartPolicy: &always, Args: []string{"--listen=sc-tls-8080=15444:8080"}}}
	ending := old.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{}
	for name, tt := range map[string]struct {
		pods []*corev1.Pod
		why  string
	}{
		"all have the proxy":           {[]*corev1.Pod{with, with, ending}, ""},
		"one of two, which has a port": {[]*corev1.Pod{with, old}, "port 8080: pods of Pod/web do not have the proxy of this port"},
	} {
		b := New([]*corev1.Service{selecting("web", 8080, "app=web", asks, target("sc-tls-8080"))}, nil, Options{Endpoints: endpointsOf("p", &yes)})
		b.AddWorkload(web)
		for _, p := range tt.pods {
			b.AddPod("Pod", "web", p)
		}
		assert.Equal(t, tt.why, b.Plan().Services[0].Why, name)
	}

	program := pod("web", map[string]string{"app": "web"}, 9443)
	program.Pod.Spec.Containers[0].Image, program.Pod.Spec.Containers[0].Args = "registry.k8s.io/metrics-server/metrics-server:v0.8.0", []string{"--secure-port=9443"}
	for reason, want := range map[string]Way{"": WayCheck, "Propagating": WayCheck, "Current": WayDone} {
		svc := selecting("web", 9443, "app=web", asks)
		if reason != "" {
			svc.Status.Conditions = []metav1.Condition{{Type: "servingcert.dev/Serving", Reason: reason}}
		}
		b := New([]*corev1.Service{svc}, nil, Options{Endpoints: Endpoints{}})
		b.AddWorkload(program)
		assert.Equal(t, want, b.Plan().Services[0].Way, reason)
	}
}

// TestQuotasAreNoted: they count the resources of the proxy in each pod.
func TestQuotasAreNoted(t *testing.T) {
	hard := func(name string, list map[corev1.ResourceName]string, used string) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: quantities(list)}}
		q.Status.Used = quantities(map[corev1.ResourceName]string{"limits.cpu": used})
		return q
	}
	b := New([]*corev1.Service{selecting("web", 8080, "app=web")}, nil, Options{Quotas: []*corev1.ResourceQuota{
		hard("compute", map[corev1.ResourceName]string{"limits.cpu": "2", "limits.memory": "1Gi", "pods": "3"}, "1900m"), hard("objects", map[corev1.ResourceName]string{"pods": "3"}, "0"),
	}})
	b.AddWorkload(pod("web", map[string]string{"app": "web"}, 8080))
	s := b.Plan().Services[0]
	require.Equal(t, WayPort, s.Way)
	assert.Equal(t, []string{"ResourceQuota compute counts the proxy in each pod; still available: 100m limits.cpu, 1Gi limits.memory"}, s.Ports[0].Notes)
}

// TestEachRefusedPortIsKnown: the webhook's note lists only the first of them.
func TestEachRefusedPortIsKnown(t *testing.T) {
	svc := selecting("web", 0, "app=web", annotated("servingcert.dev/secret-name", "web-tls"))
	svc.Spec.Ports = nil
	web := pod("web", map[string]string{"app": "web"})
	for n := range int32(8) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprint("p", n), Port: 9000 + n, TargetPort: intstr.FromString(fmt.Sprint("sc-tls-", 9000+n)),
		})
		web.Pod.Spec.Containers[0].Ports = append(web.Pod.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 9000 + n, Protocol: corev1.ProtocolUDP})
	}
	s := planFor([]*corev1.Service{svc}, web)["web"]
	require.Len(t, s.Ports, 8)
	for _, p := range s.Ports {
		assert.True(t, p.refused, p.Target)
	}
}
