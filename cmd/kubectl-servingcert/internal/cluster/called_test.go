package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// watchingService is a Service of namespace shop, which selects the pods of its name.
func watchingService(name, list, target string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{api.AnnotationSecretName: name, api.AnnotationClients: list}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString(target)}}},
	}
}

// TestWhoCalled: only the pods of Services that watch are asked, and each Service is told what its own pods say.
func TestWhoCalled(t *testing.T) {
	since := time.Now().Add(-2 * CalledWindow).UTC().Format(time.RFC3339)
	f, _ := forwarding(t, func(pod, _ string, _, data httpstream.Stream) {
		name, _, _ := strings.Cut(pod, "-")
		recent := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		switch name {
		case "clear", "old":
			account := map[string]string{"clear": "cart", "old": "gone"}[name]
			answer(data, "200 OK", fmt.Sprintf(`{"since":%[1]q,"ports":[],"clients":[],"guarded":[{"port":"sc-tls-8080","since":%[1]q}],"callers":[{"identity":"spiffe://example.com/ns/shop/sa/%[3]s","port":"sc-tls-8080","first":%[1]q,"last":%[2]q,"connections":1}]}`, since, recent, account))
		case "silent":
			answer(data, "200 OK", "?")
		default:
			assert.Fail(t, "it is not to be asked", pod)
		}
	}, nil)
	services := []*corev1.Service{
		watchingService("clear", "watch,shop/cart", "sc-tls-8080"), watchingService("old", "watch,shop/cart", "sc-tls-8080"), watchingService("silent", "watch,shop/cart", "sc-tls-8080"),
		watchingService("strict", "shop/cart", "sc-tls-8080"), watchingService("own", "watch,shop/cart", "8443"), watchingService("other", "watch", "sc-tls-8080"),
	}
	w := watchingOf(services, []string{"clear", "shop/old", "silent", "strict", "own"})
	for _, svc := range services {
		pod := podWithProxy(svc.Name + "-1")
		pod.Labels, pod.Status.Phase = map[string]string{"app": svc.Name}, corev1.PodRunning
		pod.Spec.InitContainers[0].Args = []string{"--admin-address=127.0.0.1:15443", "--listen=sc-tls-8080=15444:8080", "--clients=/c"}
		w.add(&pod)
	}

	got := map[string]string{}
	notListed := map[string][]string{}
	c := &Cluster{Client: f.client, Namespace: "default", Clock: &Clock{}}
	w.ask(t.Context(), c, f.config, services, askAll, func(namespace, name string, called plan.Called) {
		got[namespace+"/"+name], notListed[namespace+"/"+name] = called.Refuses, called.NotListed
	})
	require.Len(t, got, 3)
	assert.Empty(t, got["shop/clear"])
	assert.Contains(t, got["shop/old"], "sc-tls-8080: without watch, the list would refuse shop/gone")
	assert.Equal(t, map[string][]string{"shop/clear": nil, "shop/old": {"shop/gone"}, "shop/silent": nil}, notListed)
	assert.Contains(t, got["shop/silent"], "not all pods of the Service have answered")
}

// TestPodsThatHang take no time from those of other Services.
func TestPodsThatHang(t *testing.T) {
	since := time.Now().Add(-2 * CalledWindow).UTC().Format(time.RFC3339)
	done := make(chan struct{})
	f, _ := forwarding(t, func(pod, _ string, _, data httpstream.Stream) {
		if strings.HasPrefix(pod, "hang") {
			<-done
			return
		}
		answer(data, "200 OK", fmt.Sprintf(`{"since":%[1]q,"ports":[],"clients":[],"guarded":[{"port":"sc-tls-8080","since":%[1]q}],"callers":[]}`, since))
	}, nil)
	t.Cleanup(func() { close(done) })
	services := []*corev1.Service{watchingService("hang", "watch,shop/cart", "sc-tls-8080"), watchingService("clear", "watch,shop/cart", "sc-tls-8080")}
	w := watchingOf(services, nil)
	for i := range 4*maxConcurrent + 1 { // each takes a third of all time
		pod := podWithProxy(fmt.Sprintf("hang-%d", i))
		if i == 0 {
			pod = podWithProxy("clear-1")
		}
		name, _, _ := strings.Cut(pod.Name, "-")
		pod.Labels, pod.Status.Phase = map[string]string{"app": name}, corev1.PodRunning
		pod.Spec.InitContainers[0].Args = []string{"--admin-address=127.0.0.1:15443", "--listen=sc-tls-8080=15444:8080", "--clients=/c"}
		w.add(&pod)
	}
	got := map[string]string{}
	w.ask(t.Context(), &Cluster{Client: f.client, Namespace: "default", Clock: &Clock{}}, f.config, services, 6*time.Second, func(_, name string, called plan.Called) { got[name] = called.Refuses })
	assert.Contains(t, got["hang"], "not all pods of the Service have answered")
	assert.Contains(t, got, "clear")
	assert.Empty(t, got["clear"])
}
