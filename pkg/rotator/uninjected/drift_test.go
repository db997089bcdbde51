package uninjected_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// withTLS returns a Service with a plaintext port and TLS ports of it.
func withTLS(namespace, name string, plain int32, tls ...int32) *corev1.Service {
	svc := rotatortest.Service(name, name+"-tls", "app", name)
	svc.Namespace, svc.Spec.ClusterIP, svc.Spec.ClusterIPs = namespace, "10.0.0.1", []string{"10.0.0.1"}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: plain, TargetPort: intstr.FromInt32(8081)}}
	for _, port := range tls {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("tls-", port), Port: port, TargetPort: intstr.FromString("sc-tls-8081")})
	}
	return svc
}

// client returns a pod of Deployment cart that lists Services.
func client(connect string, changes ...rotatortest.Change) *corev1.Pod {
	return rotatortest.Pod(append([]rotatortest.Change{rotatortest.Annotation(api.AnnotationConnect, connect), rotatortest.Label("app", "cart"), rotatortest.Label("pod-template-hash", "1"), func(p *corev1.Pod) {
		p.Name = "cart-1-a"
		p.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", "cart-1")}
		p.Spec.Containers = []corev1.Container{{Name: "cart", Ports: []corev1.ContainerPort{{ContainerPort: 3000}}}}
	}}, changes...)...)
}

// world is what the webhook and the rotator know.
type world struct {
	known choose.Known
	place uninjected.Place
}

// of returns the world with the Services, of namespace shop and of others.
func worldOf(t *testing.T, all ...*corev1.Service) (w world) {
	w.known = choose.Known{In: "shop", Config: choose.Config{ProxyImage: "example.com/proxy"}}
	w.place = uninjected.Place{OptedIn: true}
	find := func(among []*corev1.Service) func(namespace, name string) *corev1.Service {
		return func(namespace, name string) *corev1.Service {
			for _, svc := range among {
				if svc.Namespace == namespace && svc.Name == name {
					return svc
				}
			}
			return nil
		}
	}
	w.known.Elsewhere, w.place.Elsewhere = find(all), find(asking(t, all))
	for _, svc := range all {
		if svc.Namespace == "shop" {
			w.known.Services = append(w.known.Services, svc)
		}
	}
	w.place.Services = asking(t, w.known.Services)
	return w
}

// injected returns the pod as the webhook makes it.
func (w world) injected(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	raw, err := json.Marshal(pod)
	require.NoError(t, err)
	patch, _, err := mutate.Mutate(pod, w.known)
	require.NoError(t, err)
	return decode[corev1.Pod](t, patched(t, raw, patch))
}

// TestPodsDriftAsForDoctor: a pod that was injected now does not differ from a new one; after a change of a Service, the
// rotator finds in the facts of the pod what doctor finds in the pod.
func TestPodsDriftAsForDoctor(t *testing.T) {
	found := 0
	rapid.Check(t, func(r *rapid.T) {
		port := rapid.SampledFrom([]int32{80, 443, 3000, 8080, 9090})
		some := func(when string) (all []*corev1.Service) {
			for _, id := range [][2]string{{"shop", "api"}, {"shop", "web"}, {"data", "db"}} {
				if rapid.IntRange(0, 3).Draw(r, when+id[1]+" is away") > 0 {
					all = append(all, withTLS(id[0], id[1], port.Draw(r, when+id[1]), rapid.SliceOfNDistinct(port, 0, 2, rapid.ID).Draw(r, when+id[1]+" TLS")...))
				}
			}
			return all
		}
		before, after := worldOf(t, some("before ")...), worldOf(t, some("after ")...)
		pod := client(rapid.SampledFrom([]string{"api, db.data", "*, db.data:443", "web", "none"}).Draw(r, "connect"), func(p *corev1.Pod) {
			if rapid.Bool().Draw(r, "by the Namespace") {
				delete(p.Annotations, api.AnnotationConnect)
			}
			p.Spec.Containers[0].Args = []string{rapid.SampledFrom([]string{"", "--listen=:9090", "--x=localhost:8080"}).Draw(r, "args")}
		})
		listed := map[string]string{api.AnnotationConnect: rapid.SampledFrom([]string{"*", "db.data"}).Draw(r, "Namespace")}
		for _, w := range []*world{&before, &after} {
			w.known.Namespace, w.place.Annotations = listed, listed
		}
		made := before.injected(t, pod)
		facts := pods.FactsOf(made)
		if drift := uninjected.Evaluate(facts, before.place).Drift; len(drift) > 0 {
			r.Fatalf("it was injected now: %v", drift)
		}
		want, got := services(choose.Drift(made, after.known)), services(uninjected.Evaluate(facts, after.place).Drift)
		if !assert.ObjectsAreEqual(want, got) {
			r.Fatalf("doctor finds %v, the rotator %v", want, got)
		}
		found += len(want)
	})
	assert.Positive(t, found)
}

// TestOutdatedConnections: one group for each workload and difference, which is counted, and told once.
func TestOutdatedConnections(t *testing.T) {
	before, after := worldOf(t, withTLS("shop", "api", 80, 443), withTLS("data", "db", 80, 443)), worldOf(t, withTLS("shop", "api", 80, 443, 9090))
	named := func(name string, change rotatortest.Change) *pods.Facts {
		return pods.FactsOf(before.injected(t, client("api", change, func(p *corev1.Pod) { p.Name = name })))
	}
	now := metav1.Now()
	leaving := named("cart-1-0", nil)
	leaving.DeletionTimestamp = &now
	s := uninjected.Situation{Now: rotatortest.Noon, Patience: 30 * time.Second, MaxEvents: 10, Place: after.place, Pods: []*pods.Facts{
		leaving, named("cart-1-b", nil), named("cart-1-a", nil), named("cart-2-c", rotatortest.Label("pod-template-hash", "2")),
		named("left", func(p *corev1.Pod) { p.Annotations[api.AnnotationConnect], p.OwnerReferences = "db.data", nil }),
		named("other", rotatortest.Annotation(api.AnnotationConnect, "none")),
		named("opted-out", rotatortest.Label(api.LabelInject, api.InjectDisabled)),
	}}
	d := uninjected.Decide(s)
	assert.Equal(t, []int{3, 4, 0}, []int{d.Workloads, d.Pods, len(d.Notify)}, "a rollout may follow")
	s.Now, s.GroupStates = s.Now.Add(time.Minute), d.GroupStates
	d = uninjected.Decide(s)
	require.Len(t, d.Notify, 3)
	left, cart := d.Notify[0], d.Notify[1]
	assert.True(t, left.LeftOut && left.Kind == choose.LeftOut && left.Pod == "left" && left.PodUID != "")
	assert.Equal(t, "Deployment cart", cart.Workload.String())
	assert.Equal(t, []any{2, "cart-1-a", choose.PortsDiffer, false}, []any{cart.Pods, cart.Pod, cart.Kind, cart.LeftOut})
	assert.Equal(t, "the proxy connects to api.shop at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 443), 443, 9090; calls of port 9090 fail in the pod, where nothing listens for them", cart.Drift)
	assert.Empty(t, cart.Noted+cart.Service)
	s.GroupStates = d.GroupStates
	assert.Empty(t, uninjected.Decide(s).Notify)
	s.Place.Excluded = true
	assert.Zero(t, uninjected.Decide(s).Pods)
}
