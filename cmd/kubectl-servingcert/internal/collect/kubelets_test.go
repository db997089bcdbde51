package collect

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Only a node's first internal address is dialled, at the default port of kubelets.
func TestKubeletsAreDialled(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.9.2:10250")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.0 400 Bad Request\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	node := func(name string, addresses ...corev1.NodeAddress) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: addresses}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = 22
		return n
	}
	got := dialKubelets(t.Context(), []corev1.Node{
		node("plain", corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "127.0.9.9"}, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "127.0.9.2"}),
		node("closed", corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "127.0.9.3"}),
		node("none", corev1.NodeAddress{Type: corev1.NodeHostName, Address: "none"}),
	})
	require.Len(t, got, 3)
	assert.Equal(t, "it does not answer with TLS", got[0].Problem)
	assert.Equal(t, "refused", got[1].Problem)
	assert.Equal(t, "the Node has no internal address", got[2].Problem)
	for _, k := range got {
		assert.Nil(t, k.Leaf, k.Node)
	}
}
