//go:build alerts

package alerts

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

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
	}
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
