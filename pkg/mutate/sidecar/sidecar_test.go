package sidecar

import (
	"encoding/json"
	"fmt"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

func service(targets ...string) *corev1.Service {
	svc := &corev1.Service{}
	for i, target := range targets {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: int32(443 + i), TargetPort: intstr.FromString(target)})
	}
	return svc
}

func podWith(ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Ports: ports}}}}
}

func wantedOf(pod *corev1.Pod, svc *corev1.Service) Wanted {
	bare := Without(pod)
	targets := TargetsOf(svc, api.TLSTargets(svc), api.ReachOf(bare))
	return Wanted{
		Pod: pod, Bare: bare, Ports: targets.Asked, Own: targets.Own, ServesTLS: func(int32) bool { return false },
		Pair: volume.Pair{Secret: "web-tls"}, Image: "registry.example/servingcert-proxy:v1",
	}
}

// TestTargets: a name that a container declares belongs to its program.
func TestTargets(t *testing.T) {
	svc, pod := service("sc-tls-8080", "sc-any-9090", "https"), podWith(corev1.ContainerPort{Name: "sc-any-9090", ContainerPort: 1})
	targets := TargetsOf(svc, api.TLSTargets(svc), api.ReachOf(pod))
	assert.Equal(t, []Port{{ProxyPort: api.ProxyPort{Upstream: "8080"}}}, targets.Asked)
	assert.Equal(t, []intstr.IntOrString{intstr.FromString("sc-any-9090")}, targets.Own, "beside ports that say TLS, https on 445 does not count")
	assert.Equal(t, []string{"sc-any-9090"}, targets.Declared)
}

// TestAdd: ports are assigned in order, except those that are taken, and a second pass changes
// nothing.
func TestAdd(t *testing.T) {
	pod := podWith(corev1.ContainerPort{ContainerPort: 8080}, corev1.ContainerPort{ContainerPort: firstPort + 1})
	svc := service("sc-tls-8080")
	patch, proxy, notes := wantedOf(pod, svc).Add(nil)
	assert.Empty(t, notes)
	assert.Equal(t, api.ProxyContainer, proxy.Name)

	raw, err := json.Marshal(pod)
	require.NoError(t, err)
	operations, err := patch.JSON()
	require.NoError(t, err)
	decoded, err := evanphx.DecodePatch(operations)
	require.NoError(t, err)
	raw, err = decoded.Apply(raw)
	require.NoError(t, err)
	after := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(raw, after))
	added, ok := api.ProxyOf(after)
	require.True(t, ok)
	assert.Equal(t, int32(firstPort), added.Admin)
	assert.Equal(t, []api.ProxyListener{{Name: "sc-tls-8080", Port: firstPort + 2, Upstream: 8080}}, added.Listeners)
	bare := Without(after)
	assert.Equal(t, pod.Spec.Containers, bare.Spec.Containers)
	assert.Equal(t, []corev1.Volume{{}, {}}, bare.Spec.Volumes)

	again, proxy, notes := wantedOf(after, svc).Add(nil)
	assert.Empty(t, again)
	assert.Empty(t, notes)
	assert.Equal(t, api.ProxyContainer, proxy.Name)
}

// TestProxyProtocol: the header is sent to the listed ports of the program, for any name of the
// proxy's port. An existing listener does not change.
func TestProxyProtocol(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := podWith(corev1.ContainerPort{Name: "http", ContainerPort: 8080}, corev1.ContainerPort{Name: "proxied", ContainerPort: 8081})
	w := wantedOf(pod, service("sc-tls-proxied", "sc-any-8081", "sc-tls-http", "sc-tls-9090"))
	w.ProxyProtocol = []int32{8081, 9090, 7070}
	sends := func(proxy api.Proxy) (names []string) {
		listeners, _ := w.listeners(proxy)
		for _, l := range listeners {
			if l.V2 {
				names = append(names, l.Name)
			}
		}
		return names
	}
	assert.Equal(t, []string{"sc-tls-proxied", "sc-any-8081", "sc-tls-9090"}, sends(api.Proxy{}))
	_, _, notes := w.Add(nil)
	assert.Equal(t, []reasons.Note{{Reason: reasons.ProxyProtocolUnused, Detail: "7070"}}, notes)

	pod.Spec.Volumes = []corev1.Volume{volume.New(pod, "pair", []corev1.VolumeProjection{w.Pair.Source(0)}, volume.ModeAll)}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: api.ProxyContainer, RestartPolicy: &always,
		Args:         []string{"--admin-address=127.0.0.1:15443", "--listen=sc-tls-proxied=15444:8081", "--listen=sc-tls-http=15445:8080,proxy-v2", "--listen=sc-any-8081=15446:8081"},
		VolumeMounts: []corev1.VolumeMount{{Name: "pair", MountPath: api.DefaultMountPath}},
	}}
	proxy, ok := api.ProxyOf(pod)
	require.True(t, ok)
	assert.Equal(t, []string{"sc-tls-http", "sc-tls-9090"}, sends(proxy))
	patch, _, notes := w.Add(nil)
	assert.Equal(t, []reasons.Note{{Reason: reasons.ProxyProtocolUnused, Detail: "8081, 7070"}}, notes)
	assert.Equal(t, "--listen=sc-tls-9090=15447:9090,proxy-v2", patch[0].Value)
}

// TestNumbersOfPorts: a NetworkPolicy that names a number stays right, in whichever order ports are listed, and when a
// port that also accepts plaintext comes and goes.
func TestNumbersOfPorts(t *testing.T) {
	pod := podWith(corev1.ContainerPort{Name: "http", ContainerPort: 8080}, corev1.ContainerPort{ContainerPort: 9090})
	for _, c := range []struct {
		ports []string
		want  map[string]int32
	}{
		{[]string{"sc-tls-8080"}, map[string]int32{"sc-tls-8080": 15444}},
		{[]string{"sc-any-8080", "sc-tls-8080"}, map[string]int32{"sc-tls-8080": 15444, "sc-any-8080": 15445}},
		{[]string{"sc-tls-8080", "sc-any-8080"}, map[string]int32{"sc-tls-8080": 15444, "sc-any-8080": 15445}},
		{[]string{"sc-tls-9090", "sc-any-8080", "sc-tls-8080"}, map[string]int32{"sc-tls-8080": 15444, "sc-tls-9090": 15445, "sc-any-8080": 15446}},
	} {
		listeners, _ := wantedOf(pod, service(c.ports...)).listeners(api.Proxy{})
		got := map[string]int32{}
		for _, l := range listeners {
			got[l.Name] = l.Port
		}
		assert.Equal(t, c.want, got)
	}
}

// TestPortsOfProgramsStayFree: also one on which a program serves TLS itself and that no container
// declares.
func TestPortsOfProgramsStayFree(t *testing.T) {
	w := wantedOf(podWith(), service("sc-tls-8080"))
	w.Own = []intstr.IntOrString{intstr.FromInt32(firstPort + 1)}
	listeners, _ := w.listeners(api.Proxy{})
	require.Len(t, listeners, 1)
	assert.EqualValues(t, firstPort+2, listeners[0].Port)
}

// TestUser: the proxy has the user of the pod, unless that is root.
func TestUser(t *testing.T) {
	root, own := int64(0), int64(1000)
	pod := podWith()
	assert.Nil(t, security(pod).RunAsUser)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &own}
	assert.Nil(t, security(pod).RunAsUser)
	pod.Spec.SecurityContext.RunAsUser = &root
	assert.EqualValues(t, user, *security(pod).RunAsUser)
}

// TestRefusals: each leaves the pod without a proxy, with a note.
func TestRefusals(t *testing.T) {
	var many []string
	for i := range api.MaxProxyPorts + 1 {
		many = append(many, fmt.Sprintf("sc-tls-%d", 8000+i))
	}
	for _, tt := range []struct {
		reason reasons.Reason
		ports  []string
		change func(pod *corev1.Pod, w *Wanted)
	}{
		{reasons.ProxyHostNetwork, nil, func(pod *corev1.Pod, _ *Wanted) { pod.Spec.HostNetwork = true }},
		{reasons.ProxyNameTaken, nil, func(pod *corev1.Pod, _ *Wanted) { pod.Spec.Containers[0].Name = api.ProxyContainer }},
		{reasons.ProxyNoImage, nil, func(_ *corev1.Pod, w *Wanted) { w.Image = "" }},
		{reasons.ProxyNoUpstream, []string{"sc-tls-web"}, func(*corev1.Pod, *Wanted) {}},
		{reasons.ProxyNotTCP, nil, func(pod *corev1.Pod, _ *Wanted) { pod.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }},
		{reasons.ProxyNotTCP, nil, func(pod *corev1.Pod, _ *Wanted) { // the API server allows a name once in a container
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{Name: "sc-tls-8080", ContainerPort: 9999, Protocol: corev1.ProtocolUDP})
		}},
		{reasons.ProxyUpstreamTLS, nil, func(_ *corev1.Pod, w *Wanted) { w.ServesTLS = func(port int32) bool { return port == 8080 } }},
		{reasons.ProxyTooManyPorts, many, func(*corev1.Pod, *Wanted) {}},
	} {
		pod := podWith(corev1.ContainerPort{ContainerPort: 8080})
		if tt.ports == nil {
			tt.ports = []string{"sc-tls-8080"}
		}
		w := wantedOf(pod, service(tt.ports...))
		tt.change(pod, &w)
		patch, proxy, notes := w.Add(nil)
		require.Len(t, notes, 1, tt.reason)
		assert.Equal(t, tt.reason, notes[0].Reason)
		if tt.reason == reasons.ProxyTooManyPorts {
			assert.Equal(t, many[api.MaxProxyPorts], notes[0].Detail)
			continue // the others have one
		}
		assert.Empty(t, patch, tt.reason)
		assert.Nil(t, proxy.Container, tt.reason)
	}
}

// TestResources: the proxy has what the pod's quality of service class and a quota require, and what is
// configured; a request is never more than the limit.
func TestResources(t *testing.T) {
	amounts := func(text string) corev1.ResourceRequirements {
		if text == "" {
			return corev1.ResourceRequirements{}
		}
		r, detail := api.ParseProxyResources(text)
		require.Empty(t, detail, text)
		return r
	}
	const guaranteed = "limits.cpu=1,limits.memory=1Gi"
	for _, tt := range []struct{ pod, said, flag, want string }{
		{"", "", "", ""},
		{"requests.cpu=1", "", "", "requests.cpu=10m"},
		{"requests.cpu=1,limits.memory=1Gi", "", "", "requests.cpu=10m,requests.memory=32Mi,limits.memory=64Mi"},
		{"requests.cpu=500m,limits.cpu=1,limits.memory=1Gi", "", "", api.DefaultProxyResources},
		{guaranteed, "", "", "requests.cpu=200m,requests.memory=64Mi,limits.cpu=200m,limits.memory=64Mi"},
		{"", "limits.memory=128Mi", "", "requests.memory=32Mi,limits.memory=128Mi"},
		{"", "requests.memory=128Mi", "", "requests.memory=128Mi"},
		{"requests.cpu=500m,limits.cpu=1,limits.memory=1Gi", "requests.memory=128Mi,limits.cpu=50m", "", "requests.cpu=10m,requests.memory=128Mi,limits.cpu=50m,limits.memory=128Mi"},
		{guaranteed, "requests.memory=1Mi,limits.cpu=1", "", "requests.cpu=1,requests.memory=64Mi,limits.cpu=1,limits.memory=64Mi"},
		{guaranteed, "requests.memory=1Gi", "", "requests.cpu=200m,requests.memory=1Gi,limits.cpu=200m,limits.memory=1Gi"},
		{"requests.cpu=1,limits.memory=1Gi", "", "requests.cpu=20m,limits.memory=32Mi", "requests.cpu=20m,requests.memory=32Mi,limits.memory=32Mi"},
		{"requests.cpu=500m,limits.cpu=1,limits.memory=1Gi", "limits.memory=32Mi", "requests.memory=256Mi", "requests.cpu=10m,requests.memory=32Mi,limits.cpu=200m,limits.memory=32Mi"},
		{"requests.cpu=500m,limits.cpu=1,limits.memory=1Gi", "", "requests.memory=256Mi", "requests.cpu=10m,requests.memory=256Mi,limits.cpu=200m,limits.memory=256Mi"},
	} {
		pod := podWith()
		pod.Spec.Containers[0].Resources = amounts(tt.pod)
		got := Wanted{Bare: pod, Resources: amounts(tt.said), Amounts: amounts(tt.flag)}.resources()
		want := amounts(tt.want)
		assert.True(t, apiequality.Semantic.DeepEqual(want, got), "%+v: %+v", tt, got)
	}
	pod := podWith()
	pod.Spec.Resources = &corev1.ResourceRequirements{}
	assert.Empty(t, Wanted{Bare: pod, Resources: amounts(guaranteed)}.resources())
}

// TestPullSecrets: the pod gets those that it lacks, whether the proxy is there or not.
func TestPullSecrets(t *testing.T) {
	pod := podWith()
	w := wantedOf(pod, service("sc-tls-8080"))
	w.PullSecrets = []string{"a", "b", "a"}
	patch, _, _ := w.Add(nil)
	assert.Contains(t, patch, jsonpatch.Operation{Op: "add", Path: jsonpatch.ImagePullSecrets, Value: []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}})
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "b"}}
	patch, _, _ = w.Add(nil)
	assert.Contains(t, patch, jsonpatch.Operation{Op: "add", Path: jsonpatch.ImagePullSecrets + "/-", Value: corev1.LocalObjectReference{Name: "a"}})
	w.Image = ""
	patch, _, _ = w.Add(nil)
	assert.Empty(t, patch, "no proxy")
}

// TestTheFirstPortsAreLookedAt: for ports beyond the largest number, the pod is not searched.
func TestTheFirstPortsAreLookedAt(t *testing.T) {
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("sc-tls-%d", 8000+i))
	}
	w, asked := wantedOf(podWith(), service(many...)), 0
	w.ServesTLS = func(int32) bool { asked++; return false }
	listeners, notes := w.listeners(api.Proxy{})
	assert.Len(t, listeners, api.MaxProxyPorts)
	assert.Equal(t, api.MaxProxyPorts, asked)
	require.Len(t, notes, 1)
	assert.Len(t, notes[0].Ports, 200-api.MaxProxyPorts)
}

// TestACopiedProxyHasNoMorePorts: the listeners of a copied pod stay, and no more are added than there is room for. A
// second pass says the same.
func TestACopiedProxyHasNoMorePorts(t *testing.T) {
	copied := api.Proxy{ContainerRef: api.ContainerRef{Container: &corev1.Container{}}}
	for i := range int32(10) {
		copied.Listeners = append(copied.Listeners, api.ProxyListener{Name: fmt.Sprintf("sc-tls-%d", 100+i), Port: 20_000 + i, Upstream: 100 + i})
	}
	wanted := []string{"sc-tls-web"}
	for i := range 5 {
		wanted = append(wanted, fmt.Sprintf("sc-tls-%d", 109-i))
	}
	for i := range 12 {
		wanted = append(wanted, fmt.Sprintf("sc-tls-%d", 1+i))
	}
	w := wantedOf(podWith(), service(wanted...))
	listeners, notes := w.listeners(copied)
	assert.Len(t, listeners, 5+6)
	require.Len(t, notes, 2)
	assert.Equal(t, reasons.ProxyNoUpstream, notes[0].Reason)
	assert.Equal(t, reasons.ProxyTooManyPorts, notes[1].Reason)
	assert.Equal(t, wanted[1+5+6:], notes[1].Ports)

	copied.Listeners = append(copied.Listeners, listeners[5:]...)
	assert.Len(t, copied.Listeners, api.MaxProxyPorts)
	again, notesAgain := w.listeners(copied)
	assert.Equal(t, listeners, again)
	assert.Equal(t, notes, notesAgain)
}

// TestWithoutItsVolumes: only those that the proxy mounts and whose names are its own.
func TestWithoutItsVolumes(t *testing.T) {
	bare := Without(podOfProxy("servingcert-proxy", "servingcert-proxy-3", "data"))
	var names []string
	for _, v := range bare.Spec.Volumes {
		names = append(names, v.Name)
	}
	assert.Equal(t, []string{"", "servingcert-proxy-2", "", "data"}, names)
}

// podOfProxy returns a pod whose proxy has the mounts.
func podOfProxy(mounts ...string) *corev1.Pod {
	always, pod := corev1.ContainerRestartPolicyAlways, podWith()
	proxy := corev1.Container{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--listen=sc-tls-8080=15444:8080"}}
	for _, name := range mounts {
		proxy.VolumeMounts = append(proxy.VolumeMounts, corev1.VolumeMount{Name: name})
	}
	pod.Spec.InitContainers = []corev1.Container{proxy}
	for _, name := range []string{"servingcert-proxy", "servingcert-proxy-2", "servingcert-proxy-3", "data"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name})
	}
	return pod
}
