package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/keymaterial"
)

// TestTimesOfCertificates of the signer, which have a label, and of other issuers, which have none and renew them.
func TestTimesOfCertificates(t *testing.T) {
	certPEM, _ := keymaterial.SelfSigned("web", 1)
	text := append([]byte("Bag Attributes\n"), certPEM...) // as openssl pkcs12 writes it
	secret := func(name string, data []byte, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}, Data: map[string][]byte{corev1.TLSCertKey: data},
		}
	}
	c := &Cluster{Client: fake.NewClientset(
		secret("ours", certPEM, map[string]string{api.LabelManagedBy: api.DefaultInstance}),
		secret("theirs", text, nil),
		secret("former", certPEM, map[string]string{api.LabelManagedBy: api.DefaultInstance}),
		secret("conflict", certPEM, nil),
	)}
	services := []status.Service{
		{Namespace: "shop", Name: "a", Secret: "ours"},
		{Namespace: "shop", Name: "b", Secret: "theirs", External: true},
		{Namespace: "shop", Name: "c", Secret: "former", External: true},
		{Namespace: "shop", Name: "d", Secret: "conflict"},
		{Namespace: "shop", Name: "e", Secret: "missing", External: true},
		{Namespace: "shop", Name: "f", Secret: "former", External: true, StillOurs: true}, // renewed until the other issuer has written it
	}
	require.NoError(t, c.AddTimes(t.Context(), "shop", services))
	for i, want := range []struct{ end, renewal bool }{{true, true}, {true, false}, {true, false}, {false, false}, {false, false}, {true, true}} {
		assert.Equal(t, want.end, services[i].NotAfter != nil, services[i].Secret)
		assert.Equal(t, want.renewal, services[i].RenewAt != nil, services[i].Secret)
	}
}
