package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/proxy/clients"
)

// forwarding starts an API server that forwards ports of pods by SPDY, without WebSockets. serve
// gets the streams of a port, as a kubelet does. objects are what it has besides, by path.
func forwarding(t *testing.T, serve func(pod, port string, problems, data httpstream.Stream), objects map[string]any) (forwarder, *atomic.Int32) {
	t.Helper()
	open := &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if object, ok := objects[r.URL.Path]; r.Method == http.MethodGet && len(objects) > 0 {
			w.Header().Set("Content-Type", "application/json")
			if !ok {
				w.WriteHeader(http.StatusNotFound)
				object = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
			}
			assert.NoError(t, json.NewEncoder(w).Encode(object))
			return
		}
		pod, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/")
		pod, right := strings.CutSuffix(pod, "/portforward")
		if !ok || !right || r.Method != http.MethodPost || !httpstream.IsUpgradeRequest(r) {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			return
		}
		open.Add(1)
		defer open.Add(-1)
		problems, data := <-streams, <-streams
		serve(pod, data.Headers().Get(corev1.PortHeader), problems, data)
		_ = problems.Close()
		_ = data.Close()
		<-conn.CloseChan()
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return forwarder{config, client}, open
}

func answer(data io.ReadWriter, status, body string) {
	if r, err := http.ReadRequest(bufio.NewReader(data)); err == nil && r.URL.Path == clients.Path {
		_, _ = fmt.Fprintf(data, "HTTP/1.1 %s\r\nConnection: close\r\n\r\n%s", status, body)
	}
}

func podWithProxy(name string) corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{InitContainers: []corev1.Container{{
		Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--admin-address=127.0.0.1:15443", "--listen=sc-any-8080=15444:8080"},
	}}}}
}

// TestAskingPods: each pod answers or fails on its own.
func TestAskingPods(t *testing.T) {
	const list = `{"since":"2026-11-24T10:00:00Z","ports":["sc-any-8080"],"clients":[]}`
	release := make(chan struct{})
	f, open := forwarding(t, func(pod, port string, problems, data httpstream.Stream) {
		switch pod {
		case "good":
			assert.Equal(t, "15443", port)
			answer(data, "200 OK", list)
		case "old":
			answer(data, "404 Not Found", "no such path")
		case "garbage":
			answer(data, "200 OK", "<html>")
		case "endless":
			answer(data, "200 OK", strings.Repeat("[", clients.MaxSize+100))
		case "refused":
			_, _ = io.WriteString(problems, "error forwarding port 15443: connection refused")
		case "silent":
			<-release
		}
	}, nil)
	names := []string{"good", "old", "garbage", "endless", "refused", "silent"}
	var pods []corev1.Pod
	for _, name := range names {
		pods = append(pods, podWithProxy(name))
	}
	c := &Cluster{Client: f.client, Namespace: "shop"}
	got := slices.Concat(c.ask(t.Context(), f, pods[:5], nil, process.Soon), c.ask(t.Context(), f, pods[5:], nil, 2*time.Second))
	close(release)
	require.Len(t, got, len(names))
	assert.Empty(t, got[0].Err)
	require.Len(t, got[0].Ports, 1)
	assert.Equal(t, "sc-any-8080", got[0].Ports[0].Name)
	for i, want := range []string{"", "GET /clients: 404 Not Found", "must be a list of clients", "larger than 1024 KiB", "error forwarding port 15443: connection refused", "no answer within 2s"} {
		assert.Equal(t, names[i], got[i].Name)
		assert.Contains(t, got[i].Err, want)
	}
	assert.Eventually(t, func() bool { return open.Load() == 0 }, process.Soon, 10*time.Millisecond, "no connection is left open")
}

// TestNoConnection returns the API server's error.
func TestNoConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden","reason":"Forbidden","code":403}`, http.StatusForbidden)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = forwarder{config, client}.get(t.Context(), "shop", "a", 15443, clients.Path)
	require.ErrorContains(t, err, "pods is forbidden")
}

func TestDirectPorts(t *testing.T) {
	port := func(number int32, target any) corev1.ServicePort {
		p := corev1.ServicePort{Port: number}
		switch target := target.(type) {
		case int:
			p.TargetPort = intstr.FromInt(target)
		case string:
			p.TargetPort = intstr.FromString(target)
		}
		return p
	}
	udp := port(8080, nil)
	udp.Protocol = corev1.ProtocolUDP
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		port(80, 8080), port(8080, nil), udp, port(443, "sc-tls-8080"), port(81, "sc-any-8080"), port(82, "http"), port(83, "other"), port(84, "sc-any-admin"), port(85, 9090),
	}}}
	pods := []corev1.Pod{{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
		{Name: "http", ContainerPort: 8080}, {Name: "other", ContainerPort: 7070}, {Name: "admin", ContainerPort: 9090},
	}}}}}}
	assert.Equal(t, map[string][]string{
		"8080":  {"port 80 (targetPort 8080)", "port 8080 (targetPort 8080)", "port 82 (targetPort http)"},
		"admin": {"port 85 (targetPort 9090)"},
	}, directPorts(svc, pods))
}

func TestPlaces(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"},
		Status:     corev1.PodStatus{StartTime: &metav1.Time{}, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}, {IP: "?"}}},
	}
	var got []string
	for _, p := range placesOfPod(pod) {
		got = append(got, p.Address.String()+" "+p.Name)
	}
	assert.Equal(t, []string{"10.0.0.1 shop Pod/a", "fd00::1 shop Pod/a"}, got)
	pod.Spec.HostNetwork = true
	assert.Empty(t, placesOfPod(pod), "its address is the node's")
	got = nil
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.0.0.0/24", "?"}}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.0.1"}, {Type: corev1.NodeHostName, Address: "n"}}
	for _, p := range placesOfNode(node) {
		got = append(got, p.Address.String())
	}
	assert.Equal(t, []string{"192.168.0.1", "10.0.0.1"}, got)
}
