package cluster

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// served is the connection of a server behind a forwarded port.
type served struct {
	httpstream.Stream
	net.Conn // of which only the addresses and deadlines are used
}

func (s served) Read(p []byte) (int, error)  { return s.Stream.Read(p) }
func (s served) Write(p []byte) (int, error) { return s.Stream.Write(p) }
func (s served) Close() error                { return s.Stream.Close() }

// TestManyPods are looked at by forwarded ports, some without a server. With build tag long, and without the race
// detector, there are 2000, of which some never answer, and it takes less than a minute.
func TestManyPods(t *testing.T) {
	n, every, timeout := 200, 100, process.Soon
	silent := bounded.Long && bounded.RaceFactor == 1
	if silent {
		n, timeout = 2000, 5*time.Second
	}
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	labels := map[string]string{"app": "web"}
	services := corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443}}}}}}
	var pods corev1.PodList
	for i := range n {
		pods.Items = append(pods.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Labels: labels},
			Status:     corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		})
	}
	unused, _ := net.Pipe()
	release := make(chan struct{})
	f, _ := forwarding(t, func(pod, port string, problems, data httpstream.Stream) {
		assert.Equal(t, "443", port)
		switch i, _ := strconv.Atoi(strings.TrimPrefix(pod, "web-")); {
		case silent && i%every == 0:
			<-release
		case i%every == 1:
			_, _ = io.WriteString(problems, "error forwarding port 443: connection refused")
		default:
			server := tls.Server(served{data, unused}, &tls.Config{Certificates: []tls.Certificate{pair}})
			if server.Handshake() == nil {
				_, _ = io.Copy(io.Discard, server)
			}
		}
	}, map[string]any{"/api/v1/namespaces/shop/services": services, "/api/v1/namespaces/shop/pods": pods})
	defer close(release)

	begun := time.Now()
	report, err := (&Cluster{Client: f.client}).ServedPorts(t.Context(), f.config, "shop", Dials{Timeout: timeout, ClusterDomain: "cluster.local"})
	require.NoError(t, err)
	took := time.Since(begun)
	t.Logf("%d pods after %s", n, took.Round(100*time.Millisecond))
	if silent {
		assert.Less(t, took, time.Minute)
	}
	count := map[probe.Kind]int{}
	for _, p := range report.Ports {
		count[p.Serves]++
		if p.Serves == probe.TLS {
			require.Equal(t, pki.Fingerprint(pair.Leaf), p.Leaf)
			require.Equal(t, []string{"web.shop.svc", pair.Leaf.Issuer.CommonName, "TLS 1.3"}, append(p.Names, p.Issuer, p.TLS.Version))
			require.Equal(t, &pair.Leaf.NotAfter, p.NotAfter)
			require.Contains(t, p.Problems, status.ProblemUntrusted)
		}
	}
	answering := n - n/every
	if silent {
		answering -= n / every
	}
	assert.Equal(t, answering, count[probe.TLS])
	assert.Len(t, report.Ports, n)
}
