package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
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

// seenCurrent sets condition Serving of the Service to Current, about its ports.
func seenCurrent(svc *corev1.Service) {
	seenAs(svc, api.ServingCurrent, state.Serving{Ports: api.NeedsHash(svc)})
}

// seenAs sets condition Serving of the Service.
func seenAs(svc *corev1.Service, reason string, said state.Serving) {
	svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionServing, Reason: reason}, said).Both()
}

// TestDoneNeedsEvidence: in a cluster, a port is done when condition Serving is Current and about the Service as it is.
// A port that requests the proxy needs a ready endpoint before.
func TestDoneNeedsEvidence(t *testing.T) {
	yes, no := true, false
	const unproven = "port 8080: the proxy for port 8080 should serve it, but condition servingcert.dev/Serving is "
	asks := annotated("servingcert.dev/secret-name", "web-tls")
	target := func(name string) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			svc.Spec.Ports[0].TargetPort = intstr.FromString(name)
		}
	}
	web := pod("web", map[string]string{"app": "web"}, 8080)
	foreign := func(svc *corev1.Service) { seenAs(svc, api.ServingForeign, state.Serving{Ports: api.NeedsHash(svc)}) }
	earlier := func(svc *corev1.Service) { seenAs(svc, api.ServingCurrent, state.Serving{Ports: "0a"}) }
	for name, tt := range map[string]struct {
		endpoints Endpoints
		serving   func(*corev1.Service)
		way       Way
		why       string
	}{
		"manifests":             {nil, earlier, WayDone, ""},
		"no endpoint":           {Endpoints{}, seenCurrent, WayRollout, "port 8080: no ready pod has the proxy of this port"},
		"one of another port":   {endpointsOf("http", &yes), seenCurrent, WayRollout, "port 8080: no ready pod has the proxy of this port"},
		"one that is not ready": {endpointsOf("p", &no), seenCurrent, WayRollout, "port 8080: no ready pod has the proxy of this port"},
		"a ready one":           {endpointsOf("p", &yes), seenCurrent, WayDone, ""},
		"one without a state":   {endpointsOf("p", nil), seenCurrent, WayDone, ""},
		"not probed":            {endpointsOf("p", &yes), func(*corev1.Service) {}, WayCheck, unproven + "missing"},
		"another certificate":   {endpointsOf("p", &yes), foreign, WayCheck, unproven + "Foreign"},
		"seen at other ports":   {endpointsOf("p", &yes), earlier, WayCheck, unproven + "Current, but about an earlier certificate or other ports"},
	} {
		b := New([]*corev1.Service{selecting("web", 8080, "app=web", asks, target("sc-tls-8080"), tt.serving)}, nil, Options{Live: tt.endpoints != nil, Endpoints: tt.endpoints})
		b.AddWorkload(web)
		s := b.Plan().Services[0]
		assert.Equal(t, tt.way, s.Way, name)
		assert.Equal(t, tt.way == WayCheck, s.Unseen(), name)
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
		b := New([]*corev1.Service{selecting("web", 8080, "app=web", asks, target("sc-tls-8080"), seenCurrent)}, nil, Options{Live: true, Endpoints: endpointsOf("p", &yes)})
		b.AddWorkload(web)
		for _, p := range tt.pods {
			b.AddPod("Pod", "web", p)
		}
		assert.Equal(t, tt.why, b.Plan().Services[0].Why, name)
	}

	program := pod("web", map[string]string{"app": "web"}, 9443)
	program.Pod.Spec.Containers[0].Image, program.Pod.Spec.Containers[0].Args = "registry.k8s.io/metrics-server/metrics-server:v0.8.0", []string{"--secure-port=9443"}
	for name, tt := range map[string]struct {
		serving func(*corev1.Service)
		want    Way
	}{
		"not probed": {func(*corev1.Service) {}, WayCheck},
		"propagating": {func(svc *corev1.Service) {
			seenAs(svc, api.ServingPropagating, state.Serving{Ports: api.NeedsHash(svc)})
		}, WayCheck},
		"seen at other ports": {earlier, WayCheck},
		"seen":                {seenCurrent, WayDone},
	} {
		b := New([]*corev1.Service{selecting("web", 9443, "app=web", asks, tt.serving)}, nil, Options{Live: true, Endpoints: Endpoints{}})
		b.AddWorkload(program)
		s := b.Plan().Services[0]
		assert.Equal(t, tt.want, s.Way, name)
		assert.Equal(t, tt.want == WayCheck, s.Unseen(), name)
	}
}

// TestADeclaredPortThatWasSeen serves TLS: the rotator has dialled it.
func TestADeclaredPortThatWasSeen(t *testing.T) {
	https := func(svc *corev1.Service) { svc.Spec.Ports[0].Name = "https" }
	for name, tt := range map[string]struct {
		serving func(*corev1.Service)
		want    Way
		today   Today
	}{
		"not probed": {func(*corev1.Service) {}, WayCheck, TodayDeclared},
		"stale":      {func(svc *corev1.Service) { seenAs(svc, api.ServingStale, state.Serving{Ports: api.NeedsHash(svc)}) }, WayCheck, TodayDeclared},
		"seen":       {seenCurrent, WayDone, TodayTLS},
	} {
		b := New([]*corev1.Service{selecting("web", 8443, "app=web", annotated("servingcert.dev/secret-name", "web-tls"), https, tt.serving)}, nil, Options{Live: true, Endpoints: Endpoints{}})
		b.AddWorkload(pod("web", map[string]string{"app": "web"}, 8443))
		s := b.Plan().Services[0]
		assert.Equal(t, tt.want, s.Way, name)
		assert.Equal(t, tt.today, s.Ports[0].Today, name)
	}
}

// TestWhatTheRotatorDoesNotDial is not seen: of several ports without a name for TLS, one is enough for the condition,
// and beside a port that has one, the others are not dialled.
func TestWhatTheRotatorDoesNotDial(t *testing.T) {
	program := pod("web", map[string]string{"app": "web"}, 10250)
	program.Pod.Spec.Containers[0].Image, program.Pod.Spec.Containers[0].Args = "registry.k8s.io/metrics-server/metrics-server:v0.8.0", []string{"--secure-port=10250"}
	for name, tt := range map[string]struct {
		beside    string // a second port
		noRotator string
		want      Way
	}{
		"alone":                  {"", "", WayDone},
		"no rotator runs":        {"", "no rotator runs", WayCheck},
		"one of two":             {"other", "", WayCheck},
		"another one is for TLS": {"https", "", WayCheck},
	} {
		svc := selecting("web", 10250, "app=web", annotated("servingcert.dev/secret-name", "web-tls"))
		if tt.beside != "" {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: tt.beside, Port: 10251, TargetPort: intstr.FromInt32(10251)})
		}
		seenCurrent(svc)
		b := New([]*corev1.Service{svc}, nil, Options{Live: true, NoRotator: tt.noRotator})
		b.AddWorkload(program)
		s := b.Plan().Services[0]
		assert.Equal(t, tt.want, s.Way, name)
		assert.Equal(t, tt.want == WayCheck, s.Unseen(), name)
	}
}

// TestBesideAProxyThatWasNotSeen: the clients can move, and the plan says that TLS was not seen.
func TestBesideAProxyThatWasNotSeen(t *testing.T) {
	yes := true
	for name, serving := range map[string]func(*corev1.Service){"seen": seenCurrent, "not seen": func(*corev1.Service) {}} {
		for _, target := range []string{"sc-tls-8080", "sc-any-8080"} {
			svc := selecting("web", 8080, "app=web", annotated("servingcert.dev/secret-name", "web-tls"))
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromString(target)})
			serving(svc)
			b := New([]*corev1.Service{svc}, nil, Options{Live: true, Endpoints: endpointsOf("https", &yes)})
			b.AddWorkload(pod("web", map[string]string{"app": "web"}, 8080))
			s := b.Plan().Services[0]
			assert.Equal(t, WayMove, s.Way, name)
			assert.Equal(t, name == "not seen", s.Unseen(), "%s %s", name, target)
			first := strings.HasPrefix(s.Steps[0].What, "find out why the rotator has not seen TLS")
			assert.Equal(t, name == "not seen", first, "%s %s: %v", name, target, s.Steps)
		}
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
	caller := pod("cart", map[string]string{"app": "cart"}, 9000)
	caller.Pod.Spec.Containers[0].Args = []string{"--upstream=http://web:8080"}
	b.AddWorkload(caller)
	s := b.Plan().Services[0]
	require.Equal(t, WayPort, s.Way)
	want := []string{"ResourceQuota compute counts the proxy in each pod; still available: 100m limits.cpu, 1Gi limits.memory"}
	assert.Equal(t, want, s.Ports[0].Notes)
	require.Len(t, b.Plan().Clients, 1)
	assert.Equal(t, want, b.Plan().Clients[0].Notes)
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
