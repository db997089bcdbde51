package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"

	"github.com/servingcert/servingcert/pkg/api"
)

// selecting returns a Service that selects pods with the label, and has one port with an equal targetPort.
func selecting(name string, port int32, label string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{}}}
	key, value, _ := strings.Cut(label, "=")
	svc.Spec.Selector = map[string]string{key: value}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "p", Port: port, TargetPort: intstr.FromInt32(port)}}
	for _, f := range change {
		f(svc)
	}
	return svc
}

func headless(svc *corev1.Service) { svc.Spec.ClusterIP = corev1.ClusterIPNone }

func annotated(key, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Annotations[key] = value }
}

// pod returns a workload with labels and declared ports.
func pod(name string, labels map[string]string, ports ...int32) Workload {
	w := Workload{Kind: "Pod", Namespace: "shop", Name: name, Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1"}}},
	}}
	for _, p := range ports {
		w.Pod.Spec.Containers[0].Ports = append(w.Pod.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: p})
	}
	return w
}

// planFor returns the plan of each Service, by name.
func planFor(services []*corev1.Service, workloads ...Workload) map[string]Service {
	b := New(services, nil, Options{})
	for _, w := range workloads {
		b.AddWorkload(w)
	}
	out := map[string]Service{}
	for _, s := range b.Plan().Services {
		out[s.Name] = s
	}
	return out
}

// Pods with certificates of another signer get none of the webhook's for that Service, and another Service may request one.
func TestKeysOfAnotherSignerAreNotProposed(t *testing.T) {
	got := planFor([]*corev1.Service{
		selecting("a", 80, "app=a", annotated(api.AnnotationIssuer, string(api.IssuerExternal)), annotated(api.AnnotationKeySource, string(api.KeySourcePod))),
		selecting("second", 80, "app=a"),
	}, pod("a", map[string]string{"app": "a"}, 80))
	assert.Equal(t, WayNone, got["a"].Way)
	require.Equal(t, WayPort, got["second"].Way)
	assert.Equal(t, "second-tls", got["second"].Secret)
}

// Members of several workloads find each other through one headless Service. It must not displace the certificates of
// the Services that clients call.
func TestAServiceOfManyWorkloadsGivesWay(t *testing.T) {
	for name, ring := range map[string]*corev1.Service{
		"headless":       selecting("a-ring", 7946, "ring=yes", headless),
		"with ClusterIP": selecting("a-ring", 7946, "ring=yes"),
	} {
		t.Run(name, func(t *testing.T) {
			got := planFor([]*corev1.Service{ring, selecting("querier", 80, "app=querier"), selecting("ruler", 80, "app=ruler")},
				pod("querier-0", map[string]string{"app": "querier", "ring": "yes"}, 80, 7946), pod("ruler-0", map[string]string{"app": "ruler", "ring": "yes"}, 80, 7946))
			for _, name := range []string{"querier", "ruler"} {
				assert.Equal(t, WayPort, got[name].Way, name)
				assert.Empty(t, got[name].Without, name)
			}
			assert.Equal(t, WayNone, got["a-ring"].Way)
			assert.Contains(t, got["a-ring"].Why, "use the certificate of Service querier, which selects them too: set servingcert.dev/secret-name: querier-tls on both Services")
		})
	}
	asked := selecting("a-ring", 7946, "ring=yes", headless, annotated("servingcert.dev/secret-name", "ring-tls"))
	got := planFor([]*corev1.Service{asked, selecting("querier", 80, "app=querier")}, pod("querier-0", map[string]string{"app": "querier", "ring": "yes"}, 80, 7946))
	assert.Equal(t, "ring-tls", got["querier"].Secret, "an existing request is not withdrawn")
}

func TestServicesOfTheSamePodsShareASecret(t *testing.T) {
	db := pod("db-0", map[string]string{"app": "db", "tier": "data"}, 5432, 9187)
	for name, tc := range map[string]struct {
		services []*corev1.Service
		want     map[string]string // annotations of the patches, by Service
	}{
		"the one with a ClusterIP names it": {
			[]*corev1.Service{selecting("a", 5432, "app=db", headless), selecting("db-metrics", 9187, "tier=data"), selecting("db", 5432, "app=db")},
			map[string]string{"a": "servingcert.dev/secret-name=db-tls", "db": "servingcert.dev/secret-name=db-tls", "db-metrics": "servingcert.dev/secret-name=db-tls"},
		},
		"one asks already": {
			[]*corev1.Service{selecting("db", 5432, "app=db"), selecting("db-headless", 9187, "app=db", headless, annotated("servingcert.dev/secret-name", "mine"))},
			map[string]string{"db": "servingcert.dev/secret-name=mine", "db-headless": ""},
		},
		"one asks for keys of the pods": {
			[]*corev1.Service{selecting("db", 5432, "app=db"), selecting("other", 9187, "app=db", annotated("servingcert.dev/key-source", "pod"))},
			map[string]string{"db": "servingcert.dev/key-source=pod", "other": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for name, s := range planFor(tc.services, db) {
				require.NotNil(t, s.Patch, name)
				require.Equal(t, WayPort, s.Way, name)
				assert.Equal(t, fmt.Sprint("sc-tls-", s.Ports[0].Port), s.Ports[0].Proxy, name)
				got[name] = ""
				for key, value := range s.Patch.Metadata.Annotations {
					got[name] = key + "=" + value
				}
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestServicesOfOtherPodsShareNone(t *testing.T) {
	read, write := pod("read-0", map[string]string{"app": "read", "ring": "yes"}, 3100, 7946), pod("write-0", map[string]string{"app": "write", "ring": "yes"}, 3100, 7946)
	read.Pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RING", Value: "http://ring:7946"}}
	ring, reader := selecting("ring", 7946, "ring=yes", headless), selecting("read", 3100, "app=read")

	got := planFor([]*corev1.Service{ring, reader, selecting("write", 3100, "app=write")}, read, write)
	assert.Equal(t, "read-tls", got["read"].Secret)
	assert.Equal(t, WayNone, got["ring"].Way)
	assert.Nil(t, got["ring"].Patch)
	assert.Empty(t, got["ring"].Secret)
	assert.Zero(t, got["ring"].ToMove, "there is nothing to move to")
	assert.Equal(t, "the pods of Pod/read-0 use the certificate of Service read, which selects them too: "+
		"set servingcert.dev/secret-name: read-tls on both Services, or servingcert.dev/key-source: pod", got["ring"].Why)

	got = planFor([]*corev1.Service{ring, reader}, read, write) // no other Service selects the other pod
	assert.Equal(t, WayPort, got["ring"].Way)
	assert.Equal(t, "sc-tls-7946", got["ring"].Ports[0].Proxy)
	assert.Equal(t, 1, got["ring"].ToMove)
	assert.Contains(t, strings.Join(got["ring"].Ports[0].Notes, "\n"), "the pods of Pod/read-0 use the certificate of Service read")

	got = planFor([]*corev1.Service{ring, selecting("read", 3100, "app=read", annotated("servingcert.dev/key-source", "pod"))}, read)
	assert.Equal(t, "servingcert.dev/key-source=pod", "servingcert.dev/key-source="+got["ring"].Patch.Metadata.Annotations["servingcert.dev/key-source"])
}

// After all patches, the webhook adds each proxy that the plan proposes without a note.
func TestTheWebhookKeepsWhatThePlanPromises(t *testing.T) {
	labels := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		var workloads []Workload
		for i := range rapid.IntRange(1, 4).Draw(t, "pods") {
			set := map[string]string{}
			for _, l := range labels {
				set[l] = rapid.SampledFrom([]string{"x", "y"}).Draw(t, l)
			}
			workloads = append(workloads, pod(fmt.Sprint("pod", i), set, 8000, 8001, 8002))
		}
		var services []*corev1.Service
		for i := range rapid.IntRange(1, 4).Draw(t, "services") {
			change := []func(*corev1.Service){
				func(*corev1.Service) {}, headless, annotated("servingcert.dev/secret-name", "own"), annotated("servingcert.dev/key-source", "pod"),
			}
			label := rapid.SampledFrom(labels).Draw(t, "label") + "=" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "value")
			services = append(services, selecting(fmt.Sprint("s", i), rapid.Int32Range(8000, 8002).Draw(t, "port"), label, rapid.SampledFrom(change).Draw(t, "kind")))
		}
		plans := planFor(services, workloads...)
		known := choose.Known{Config: choose.Config{ProxyImage: "proxy"}}
		for _, svc := range services {
			known.Services = append(known.Services, plans[svc.Name].Patch.applied(svc))
		}
		for _, w := range workloads {
			patch, _, err := mutate.Mutate(w.Pod, known)
			if err != nil {
				t.Fatal(err)
			}
			done, err := json.Marshal(patch)
			if err != nil {
				t.Fatal(err)
			}
			for _, svc := range services {
				p := plans[svc.Name].Ports[0]
				selects := w.Pod.Labels[keyOf(svc)] == svc.Spec.Selector[keyOf(svc)]
				if selects && p.Proxy != "" && len(plans[svc.Name].notesOfSharing()) == 0 && !strings.Contains(string(done), `"`+p.Proxy+`"`) {
					t.Fatalf("%s of Service %s is missing in %s: %s", p.Proxy, svc.Name, w.Name, done)
				}
			}
		}
	})
}

func keyOf(svc *corev1.Service) (key string) {
	for key = range svc.Spec.Selector {
	}
	return key
}

func (s Service) notesOfSharing() (notes []string) {
	for _, p := range s.Ports {
		for _, n := range p.Notes {
			if strings.Contains(n, "which selects them too") {
				notes = append(notes, n)
			}
		}
	}
	return notes
}

// TestARequestOfAnotherIssuersSecret is proposed with its issuer: without it, the signer would refuse one of the Services.
func TestARequestOfAnotherIssuersSecret(t *testing.T) {
	followed := selecting("web", 8080, "app=web", annotated(api.AnnotationSecretName, "corp-tls"), annotated(api.AnnotationIssuer, string(api.IssuerExternal)))
	b := New([]*corev1.Service{followed, selecting("admin", 9090, "app=web")}, nil, Options{})
	b.AddWorkload(pod("web", map[string]string{"app": "web"}, 8080, 9090))
	services := b.Plan().Services
	i := slices.IndexFunc(services, func(s Service) bool { return s.Name == "admin" })
	require.GreaterOrEqual(t, i, 0)
	require.NotNil(t, services[i].Patch)
	assert.Equal(t, map[string]string{api.AnnotationSecretName: "corp-tls", api.AnnotationIssuer: "external"}, services[i].Patch.Metadata.Annotations)
}
