//go:build alerts

package alerts

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// allowKubelets gives the signer the right to approve what kubelets ask for.
func allowKubelets(ctx context.Context) error {
	manifest, err := os.ReadFile("../../../deploy/policies/kubelet-serving.yaml")
	if err != nil {
		return err
	}
	objects, err := deploy.Decode(manifest)
	if err != nil {
		return err
	}
	return deploy.ApplyObjects(ctx, admin, "test", objects)
}

func breaksOfKubelets() []broken {
	return []broken{
		{
			alert: "ServingcertKubeletRequestsWait", labels: map[string]string{"reason": "NodeNotFound"}, how: "a kubelet without a Node asks for a serving certificate",
			breaks: func(t *testing.T, _ *world) { require.NoError(t, askAsKubelet(t.Context(), "ghost", "ghost")) },
		},
		{
			alert: "ServingcertKubeletRequestsDenied", labels: map[string]string{"reason": "InvalidSubject"}, how: "a kubelet asks for the certificate of another",
			again: func(ctx context.Context, _ *world) { _ = askAsKubelet(ctx, "ghost", "another") }, // it is asked again
		},
		{
			alert: "ServingcertKubeletsServeOther", labels: map[string]string{"state": "not_issued"}, how: "a kubelet serves a certificate of another CA",
			breaks: func(t *testing.T, w *world) {
				ca := rotatortest.NewCA(t, 1, time.Now().Add(-time.Hour))
				serveTLS(w.t, "127.0.9.1:10250", func() (*tls.Certificate, error) {
					pair := ca.Issue(t, time.Now(), "node.example.com")
					return &pair, nil
				})
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kubelet"}}
				require.NoError(t, admin.Create(t.Context(), node))
				node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.9.1"}}
				require.NoError(t, admin.Status().Update(t.Context(), node))
				harness.Eventually(t, func() error { // as status and doctor read it
					var cm corev1.ConfigMap
					if err := admin.Get(t.Context(), inSystem(api.KubeletStatusName), &cm); err != nil {
						return err
					}
					s, err := api.ParseKubeletStatus(cm.Data)
					if err == nil && (len(s.Kubelets) != 1 || s.Kubelets[0].State != "not_issued") {
						err = fmt.Errorf("it says %v", s)
					}
					return err
				})
			},
		},
	}
}

// serveTLS answers handshakes at the address until the test ends; one without a certificate fails.
func serveTLS(t *testing.T, address string, certificate func() (*tls.Certificate, error)) {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() }}
	listener, err := tls.Listen("tcp", address, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = conn.(*tls.Conn).HandshakeContext(context.Background())
				_, _ = io.Copy(io.Discard, conn) // until the client ends it
				_ = conn.Close()
			}()
		}
	}()
}

// askAsKubelet makes the request of a kubelet for the serving certificate of a node.
func askAsKubelet(ctx context.Context, kubelet, node string) error {
	config := rest.CopyConfig(plane.AdminConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + kubelet, Groups: []string{"system:nodes", "system:masters"}}
	as, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
	}, key)
	if err != nil {
		return err
	}
	return as.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName, Request: issue.EncodeCSR(der),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	})
}
