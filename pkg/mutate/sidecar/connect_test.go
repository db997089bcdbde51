package sidecar

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/test/bounded"
)

func target(service, namespace, address string, port int32) connect.Target {
	name := service + "." + namespace
	return connect.Target{
		Service: service, Namespace: namespace, Address: address,
		Names: []string{service, name, name + ".svc", name + ".svc.cluster.local"}, Ports: []connect.Port{{Port: port, TLS: 443}},
	}
}

// added applies what Add wants to a pod, and checks that a second pass changes nothing.
func added(t *testing.T, pod *corev1.Pod, svc *corev1.Service, targets ...connect.Target) *corev1.Pod {
	t.Helper()
	return addedWith(t, pod, svc, func(*Wanted) {}, targets...)
}

// addedWith is added for what else is wanted.
func addedWith(t *testing.T, pod *corev1.Pod, svc *corev1.Service, change func(*Wanted), targets ...connect.Target) *corev1.Pod {
	t.Helper()
	pass := func(pod *corev1.Pod) jsonpatch.Patch {
		w := wantedOf(pod, svc)
		w.Connect, w.ClusterDomain = targets, "cluster.local"
		change(&w)
		patch, _, _ := w.Add(nil)
		return patch
	}
	raw, err := json.Marshal(pod)
	require.NoError(t, err)
	operations, err := pass(pod).JSON()
	require.NoError(t, err)
	if operations == nil {
		return pod
	}
	decoded, err := evanphx.DecodePatch(operations)
	require.NoError(t, err)
	raw, err = decoded.Apply(raw)
	require.NoError(t, err, string(operations))
	after := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(raw, after))
	assert.Empty(t, pass(after), "a second pass")
	return after
}

// TestConnectsAsThePodWants: a pod may have the proxy of another namespace, copied with it, or that of a pass before
// another webhook has changed the pod.
func TestConnectsAsThePodWants(t *testing.T) {
	pod := podWith(corev1.ContainerPort{ContainerPort: 8080})
	pod.Spec.InitContainers = []corev1.Container{{Name: "wait"}}
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "10.1.1.1", Hostnames: []string{"legacy"}}}
	hosts := func(pod *corev1.Pod) map[string][]string {
		out := map[string][]string{}
		for _, a := range pod.Spec.HostAliases {
			out[a.IP] = append(out[a.IP], a.Hostnames[0])
		}
		return out
	}
	shop := added(t, pod, service(), target("web", "shop", "127.1.0.1", 80), target("db", "shop", "127.1.0.2", 5432))
	proxy, ok := api.ProxyOf(shop)
	require.True(t, ok)
	assert.Zero(t, proxy.Index, "before the init containers, which may call")
	assert.Len(t, proxy.Connects, 2)
	assert.Equal(t, map[string][]string{"10.1.1.1": {"legacy"}, "127.1.0.1": {"web"}, "127.1.0.2": {"db"}}, hosts(shop))

	staging := added(t, shop, service(), target("web", "staging", "127.1.0.1", 80))
	proxy, _ = api.ProxyOf(staging)
	assert.Equal(t, "--connect=127.1.0.1:80=web.staging.svc:443", proxy.Args[len(proxy.Args)-1])
	assert.Len(t, proxy.Connects, 1)
	assert.Equal(t, map[string][]string{"10.1.1.1": {"legacy"}, "127.1.0.1": {"web"}}, hosts(staging))

	serving := added(t, shop, service("sc-tls-8080"), target("web", "shop", "127.1.0.1", 80))
	proxy, _ = api.ProxyOf(serving)
	assert.Len(t, proxy.Listeners, 1, "a Service came later")
	assert.Contains(t, proxy.Args, "--cert-dir=/etc/servingcert")
	assert.Len(t, proxy.VolumeMounts, 3)
	assert.Len(t, proxy.Connects, 1)

	server := added(t, serving, service("sc-tls-8080"))
	proxy, _ = api.ProxyOf(server)
	assert.Len(t, proxy.Listeners, 1)
	assert.Empty(t, proxy.Connects)
	assert.NotContains(t, proxy.Args, "--cluster-domain=cluster.local")

	none := added(t, shop, service())
	_, ok = api.ProxyOf(none)
	assert.False(t, ok)
	assert.Equal(t, []corev1.Container{{Name: "wait"}}, none.Spec.InitContainers)
	assert.Equal(t, map[string][]string{"10.1.1.1": {"legacy"}}, hosts(none))
}

// TestOneEntryForEachAddress: the address is the key of the list.
func TestOneEntryForEachAddress(t *testing.T) {
	after := added(t, podWith(), service(), target("web", "shop", "::1", 80), target("db", "shop", "::1", 5432))
	require.Len(t, after.Spec.HostAliases, 1)
	assert.Len(t, after.Spec.HostAliases[0].Hostnames, 8)
	assert.Empty(t, Without(after).Spec.HostAliases)
}

// TestARefusedProxyConnectsAsThePodWants: a pod is copied into a namespace whose Service has another Secret, or to the
// network of its node. What serves is left alone, and what calls Services of the first namespace is not.
func TestARefusedProxyConnectsAsThePodWants(t *testing.T) {
	shop := added(t, podWith(corev1.ContainerPort{ContainerPort: 8080}), service("sc-tls-8080"), target("db", "shop", "127.1.0.1", 5432))
	before, _ := api.ProxyOf(shop)
	other := func(w *Wanted) { w.Pair.Secret = "frontend-tls" }

	staging := addedWith(t, shop, service("sc-tls-8080"), other, target("db", "staging", "127.1.0.1", 5432))
	proxy, _ := api.ProxyOf(staging)
	assert.Equal(t, before.Listeners, proxy.Listeners)
	require.Len(t, proxy.Connects, 1)
	assert.Equal(t, "db.staging.svc", proxy.Connects[0].Host)
	require.Len(t, staging.Spec.HostAliases, 1)
	assert.Contains(t, staging.Spec.HostAliases[0].Hostnames, "db.staging")

	none := addedWith(t, shop, service("sc-tls-8080"), other)
	proxy, _ = api.ProxyOf(none)
	assert.Equal(t, before.Listeners, proxy.Listeners)
	assert.Empty(t, proxy.Connects)
	assert.Empty(t, none.Spec.HostAliases)

	client := added(t, podWith(), service(), target("db", "shop", "127.1.0.1", 5432))
	client.Spec.HostNetwork = true
	node := added(t, client, service())
	_, ok := api.ProxyOf(node)
	assert.False(t, ok)
	assert.Empty(t, node.Spec.HostAliases)
}

// TestWhatAnotherWebhookDrops: it may know neither hostAliases nor sysctls of a pod. The pass after it puts them back,
// or the names would lead to the Services themselves, in plaintext.
func TestWhatAnotherWebhookDrops(t *testing.T) {
	targets := []connect.Target{target("web", "shop", "127.1.0.1", 80), target("db", "shop", "127.1.0.2", 5432)}
	shop := added(t, podWith(), service(), targets...)
	for name, drop := range map[string]func(*corev1.PodSpec){
		"all aliases": func(s *corev1.PodSpec) { s.HostAliases = nil },
		"one of them": func(s *corev1.PodSpec) { s.HostAliases = s.HostAliases[:1] },
		"a name":      func(s *corev1.PodSpec) { s.HostAliases[0].Hostnames = s.HostAliases[0].Hostnames[1:] },
		"the sysctl":  func(s *corev1.PodSpec) { s.SecurityContext.Sysctls = nil },
		"all":         func(s *corev1.PodSpec) { s.HostAliases, s.SecurityContext = nil, nil },
	} {
		lost := shop.DeepCopy()
		drop(&lost.Spec)
		after := added(t, lost, service(), targets...)
		assert.Equal(t, shop.Spec.HostAliases, after.Spec.HostAliases, name)
		assert.Equal(t, shop.Spec.SecurityContext, after.Spec.SecurityContext, name)
	}
	other := shop.DeepCopy()
	other.Spec.HostAliases = append(other.Spec.HostAliases, corev1.HostAlias{IP: "10.1.1.1", Hostnames: []string{"legacy"}})
	assert.Equal(t, other.Spec, added(t, other, service(), targets...).Spec, "what another webhook adds stays")
}

// TestCostOfAForgedProxy: a pod may have any proxy, and any hosts file that the API server accepts.
func TestCostOfAForgedProxy(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	forged := corev1.Container{Name: api.ProxyContainer, RestartPolicy: &always}
	for i := range api.MaxConnectPorts {
		forged.Args = append(forged.Args, fmt.Sprintf("--connect=127.1.0.1:%d=abcdefghij%03d.shop.svc:443", i+1, i))
	}
	pod := podWith()
	pod.Spec.InitContainers = []corev1.Container{forged}
	for range 100 {
		alias := corev1.HostAlias{IP: "127.1.0.1"}
		for i := range 280 {
			alias.Hostnames = append(alias.Hostnames, fmt.Sprintf("abcdefghij%03d.shop.svd", i))
		}
		pod.Spec.HostAliases = append(pod.Spec.HostAliases, alias)
	}
	assert.NoError(t, bounded.Took(20*time.Millisecond, func() { wantedOf(pod, service()).Add(nil) }))
}

// TestAServingProxyThatBeginsToConnect: it was added behind the init containers, which may call Services.
func TestAServingProxyThatBeginsToConnect(t *testing.T) {
	pod := podWith(corev1.ContainerPort{ContainerPort: 8080})
	pod.Spec.InitContainers = []corev1.Container{{Name: "wait"}, {Name: "migrate"}}
	serving := added(t, pod, service("sc-tls-8080"))
	proxy, _ := api.ProxyOf(serving)
	require.Equal(t, 2, proxy.Index)
	serving.Spec.InitContainers = append(serving.Spec.InitContainers, corev1.Container{Name: "late"})
	for _, restarts := range []*corev1.ContainerRestartPolicy{proxy.RestartPolicy, nil} { // nil: another webhook does not know native sidecars
		serving.Spec.InitContainers[2].RestartPolicy = restarts
		both := added(t, serving, service("sc-tls-8080"), target("db", "shop", "127.1.0.1", 5432))
		var names []string
		for _, c := range both.Spec.InitContainers {
			names = append(names, c.Name)
		}
		assert.Equal(t, []string{api.ProxyContainer, "wait", "migrate", "late"}, names)
		moved, ok := api.ProxyOf(both)
		require.True(t, ok)
		assert.Len(t, moved.Connects, 1)
		assert.Equal(t, proxy.Listeners, moved.Listeners)
		assert.Equal(t, proxy.StartupProbe, moved.StartupProbe)
	}
}
