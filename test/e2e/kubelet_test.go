//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// kubeletScene: the kubelet's own serving certificate. Scene metrics then verifies the kubelet by it,
// and so does kube-apiserver.
func kubeletScene() *scene {
	return &scene{
		name: "kubelet", about: "the kubelet asks for its serving certificate, and the signer approves it",
		leftOut: func(c *cluster) string {
			if c.machine == nil {
				return "configures the kubelet and kube-controller-manager"
			}
			return ""
		},
	}
}

// kubeletAsks does as docs/kubelet-serving.md says, and sees what a stolen node gets.
func (c *cluster) kubeletAsks(t *testing.T, s *scene) {
	t.Helper()
	manifest, err := os.ReadFile("../../deploy/policies/kubelet-serving.yaml")
	require.NoError(t, err)
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	require.NoError(t, deploy.ApplyObjects(t.Context(), c.admin, owner, objects))
	nodes := netip.PrefixFrom(c.machine.NodeIP, 24).Masked()
	c.setArgs(t, "signer", "--approve-kubelet-serving", "--node-cidrs="+nodes.String())

	config := c.ofNode("config", "kubelet.yaml")
	content, err := os.ReadFile(config)
	require.NoError(t, err)
	given, _, found := strings.Cut(string(content), "tlsCertFile:")
	require.True(t, found, "the kubelet has no certificate from a file")
	require.NoError(t, os.WriteFile(config, []byte(given+"serverTLSBootstrap: true\n"), 0o600))
	start := time.Now()
	require.NoError(t, c.machine.Restart(t.Context(), controlplane.Kubelet))
	var leaf *x509.Certificate
	eventually(t, starting, "the kubelet serves a certificate that it asked for", func(ctx context.Context) (err error) {
		leaf, err = c.kubeletServes(ctx)
		return err
	})
	s.note(fmt.Sprintf("served %s after the kubelet was started, by the signer's approval and kube-controller-manager's signature", seconds(time.Since(start))))
	assert.Equal(t, "servingcert node CA", leaf.Issuer.CommonName)
	answered, err := c.clients.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
	require.NoError(t, err)
	require.NotEmpty(t, answered.Items)
	for i := range answered.Items {
		require.NotEmpty(t, answered.Items[i].Status.Conditions)
		assert.Equal(t, "NodeAddresses", answered.Items[i].Status.Conditions[0].Reason)
	}
	s.note(c.refusesStolenNode(t, nodes))
}

// kubeletServes returns the certificate of the kubelet's port, verified by the cluster's CA for the
// node's address.
func (c *cluster) kubeletServes(ctx context.Context) (*x509.Certificate, error) {
	ca, err := os.ReadFile(c.ofNode("pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	node := c.machine.NodeIP.String()
	raw, err := c.machine.Dialer().DialContext(ctx, "tcp", net.JoinHostPort(node, "10250"))
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: node, MinVersion: tls.VersionTLS12})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	leaf := conn.ConnectionState().PeerCertificates[0]
	if lifetime := leaf.NotAfter.Sub(leaf.NotBefore); lifetime > time.Hour {
		return nil, fmt.Errorf("it serves a certificate of %s, which is that of before", lifetime)
	}
	return leaf, nil
}

// kubeletRenews fails the test unless the kubelet has asked again, and serves what it got: it does so
// when 70 to 90 % of a lifetime of 10 minutes, that begins 5 minutes before the signature, are over.
func (c *cluster) kubeletRenews(t *testing.T) string {
	t.Helper()
	const lifetime = 15 * time.Minute
	var leaf *x509.Certificate
	eventually(t, lifetime, "the kubelet has its certificate renewed", func(ctx context.Context) (err error) {
		if leaf, err = c.kubeletServes(ctx); err != nil {
			return err
		}
		list, err := c.clients.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
		if err != nil {
			return err
		}
		signed := 0
		for i := range list.Items {
			if len(list.Items[i].Status.Certificate) > 0 {
				signed++
			}
		}
		if signed < 2 {
			return errors.New("it has not asked again")
		}
		if since := time.Since(leaf.NotBefore); since > lifetime*9/10 {
			return fmt.Errorf("it still serves the certificate of %s ago", since)
		}
		return nil
	})
	return "renewed by the kubelet; what it serves was signed at " + leaf.NotBefore.Add(5*time.Minute).UTC().Format(time.TimeOnly)
}

// refusesStolenNode makes requests with the kubelet's own credentials that no kubelet makes. Each is
// refused with its reason, or waits for what its Node does not report.
func (c *cluster) refusesStolenNode(t *testing.T, nodes netip.Prefix) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.ofNode("pki", "kubelet.kubeconfig"))
	require.NoError(t, err)
	stolen, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	isCA, err := asn1.Marshal(struct{ CA bool }{true})
	require.NoError(t, err)
	own := pkix.Name{CommonName: "system:node:" + nodeOf(t, c), Organization: []string{"system:nodes"}}
	address := []net.IP{c.machine.NodeIP.AsSlice()}
	const byAPIServer = "" // NodeRestriction refuses it
	serving := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	client := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it is refused
	require.NoError(t, err)
	cases := map[string]struct {
		asks   x509.CertificateRequest
		key    any
		usages []certificatesv1.KeyUsage
		reason string
	}{
		"another node's name":        {asks: x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:other", Organization: own.Organization}, IPAddresses: address}, reason: byAPIServer},
		"more organizations":         {asks: x509.CertificateRequest{Subject: pkix.Name{CommonName: own.CommonName, Organization: []string{"system:nodes", "system:masters"}}, IPAddresses: address}, reason: "InvalidSubject"},
		"an address not reported":    {asks: x509.CertificateRequest{Subject: own, IPAddresses: []net.IP{nodes.Addr().Next().Next().Next().AsSlice()}}, reason: "AddressNotReported"},
		"the API server's ClusterIP": {asks: x509.CertificateRequest{Subject: own, IPAddresses: []net.IP{c.machine.APIIP.AsSlice()}}, reason: "NameNotPermitted"},
		"a Service's name":           {asks: x509.CertificateRequest{Subject: own, DNSNames: []string{"kubernetes.default.svc"}}, reason: "NameNotPermitted"},
		"localhost":                  {asks: x509.CertificateRequest{Subject: own, DNSNames: []string{"localhost"}}, reason: "NameNotPermitted"},
		"a wildcard":                 {asks: x509.CertificateRequest{Subject: own, DNSNames: []string{"*.example.com"}}, reason: "InvalidName"},
		"a URI":                      {asks: x509.CertificateRequest{Subject: own, IPAddresses: address, URIs: []*url.URL{{Scheme: "spiffe", Host: "x"}}}, reason: "InvalidRequest"},
		"an email address":           {asks: x509.CertificateRequest{Subject: own, IPAddresses: address, EmailAddresses: []string{"a@example.com"}}, reason: "InvalidRequest"},
		"a CA": {asks: x509.CertificateRequest{Subject: own, IPAddresses: address, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: isCA}}},
			reason: "InvalidRequest"},
		"a client's certificate": {asks: x509.CertificateRequest{Subject: own, IPAddresses: address}, usages: client, reason: "InvalidUsages"},
		"a weak key":             {asks: x509.CertificateRequest{Subject: own, IPAddresses: address}, key: weak, reason: "UnsupportedKeyType"},
	}
	for name, r := range cases {
		if r.key == nil {
			r.key, err = pki.GenerateKey(pki.ECDSAP256)
			require.NoError(t, err)
		}
		if r.usages == nil {
			r.usages = serving
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &r.asks, r.key)
		require.NoError(t, err)
		o, err := stolen.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "stolen-"},
			Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName, Request: issue.EncodeCSR(der), Usages: r.usages},
		}, metav1.CreateOptions{})
		if r.reason == byAPIServer {
			assert.True(t, apierrors.IsForbidden(err), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		c.refuses(t, name, o, r.reason)
	}
	return fmt.Sprintf("%d wrong requests with the node's own credentials, none of them signed, each with its reason", len(cases))
}

// refuses fails the test unless the request is not approved, and an event says the reason.
func (c *cluster) refuses(t *testing.T, name string, o *certificatesv1.CertificateSigningRequest, reason string) {
	t.Helper()
	eventually(t, settling, name, func(ctx context.Context) error {
		events, err := c.clients.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "regarding.uid=" + string(o.UID)})
		if err != nil {
			return err
		}
		for i := range events.Items {
			if events.Items[i].Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("request %s has %d events, and none with reason %s", o.Name, len(events.Items), reason)
	})
	now, err := c.clients.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, now.Status.Certificate, name)
	for _, condition := range now.Status.Conditions {
		assert.Equal(t, certificatesv1.CertificateDenied, condition.Type, name)
		assert.Equal(t, reason, condition.Reason, name)
	}
}

// nodeOf is the name of the one node.
func nodeOf(t *testing.T, c *cluster) string {
	t.Helper()
	nodes, err := c.clients.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 1)
	return nodes.Items[0].Name
}
