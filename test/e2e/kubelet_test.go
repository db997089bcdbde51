//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
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
	"github.com/servingcert/servingcert/test/hosttest"
)

// kubeletScene: the kubelet's own serving certificate, which scene metrics and kube-apiserver then verify.
func kubeletScene() *scene {
	return &scene{
		name: "kubelet", about: "the kubelet requests its serving certificate, and the signer approves it",
		leftOut: func(c *cluster) string {
			if c.machine == nil {
				return "configures the kubelet and kube-controller-manager"
			}
			return ""
		},
	}
}

// kubeletAsks follows docs/kubelet-serving.md, and tests requests of a stolen node. It returns the
// certificate that the kubelet serves then.
func (c *cluster) kubeletAsks(t *testing.T, s *scene) (first string) {
	t.Helper()
	manifest, err := os.ReadFile("../../deploy/policies/kubelet-serving.yaml")
	require.NoError(t, err)
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	require.NoError(t, deploy.ApplyObjects(t.Context(), c.admin, owner, objects))
	nodes := netip.PrefixFrom(c.machine.NodeIP, 24).Masked()
	cidrs := nodes.String()
	if c.machine.V6 != nil {
		cidrs += "," + c.machine.V6.Link.String()
	}
	// The previous certificate stays in the configuration, and is served until the first request is signed.
	config := c.ofNode("config", "kubelet.yaml")
	content, err := os.ReadFile(config)
	require.NoError(t, err)
	require.Contains(t, string(content), "tlsCertFile:")
	require.NoError(t, os.WriteFile(config, append(content, "serverTLSBootstrap: true\n"...), 0o600))
	require.NoError(t, c.machine.Restart(t.Context(), controlplane.Kubelet))
	eventually(t, settling, "the kubelet's request", func(ctx context.Context) error {
		if _, err := c.kubeletServes(ctx); !errors.Is(err, errServesFile) {
			return fmt.Errorf("without an approval: %w", err)
		}
		asked, err := c.kubeletRequests(ctx)
		if err == nil && len(asked) == 0 {
			err = errors.New("no request")
		}
		return err
	})
	start := time.Now()
	c.setArgs(t, "signer", "--approve-kubelet-serving", "--node-cidrs="+cidrs)
	var leaf *x509.Certificate
	eventually(t, starting, "the kubelet serves the requested certificate", func(ctx context.Context) (err error) {
		if leaf, err = c.kubeletServes(ctx); err != nil {
			assert.ErrorIs(t, err, errServesFile)
		}
		return err
	})
	s.note(fmt.Sprintf("with tlsCertFile kept, no handshake failed: that file was served until the approval, and the requested certificate %s after approval was enabled", seconds(time.Since(start))))
	assert.Equal(t, "servingcert node CA", leaf.Issuer.CommonName)
	answered, err := c.kubeletRequests(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, answered)
	for i := range answered {
		require.NotEmpty(t, answered[i].Status.Conditions)
		assert.Equal(t, "NodeAddresses", answered[i].Status.Conditions[0].Reason)
	}
	s.note(c.refusesStolenNode(t, nodes))
	return pki.Fingerprint(leaf)
}

func (c *cluster) kubeletRequests(ctx context.Context) ([]certificatesv1.CertificateSigningRequest, error) {
	list, err := c.clients.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// errServesFile is returned by kubeletServes while the certificate is that of the file.
var errServesFile = errors.New("the kubelet serves the previous certificate, with a lifetime of more than an hour")

// kubeletServes returns the certificate of the kubelet's port, verified with the cluster's CA for the
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
	if leaf.NotAfter.Sub(leaf.NotBefore) > time.Hour {
		return nil, errServesFile
	}
	return leaf, nil
}

// kubeletRenews fails the test unless the kubelet has requested and serves another certificate than its first. It does
// so after 70 to 90 % of the lifetime of 10 minutes, which begins 5 minutes before the signature.
func (c *cluster) kubeletRenews(t *testing.T, first string) string {
	t.Helper()
	const lifetime = 15 * time.Minute
	var leaf *x509.Certificate
	eventually(t, lifetime, "the kubelet renews its certificate", func(ctx context.Context) (err error) {
		if leaf, err = c.kubeletServes(ctx); err != nil {
			return err
		}
		if pki.Fingerprint(leaf) == first {
			return errors.New("the kubelet serves its first certificate")
		}
		if since := time.Since(leaf.NotBefore); since > lifetime*9/10 {
			return fmt.Errorf("the kubelet still serves the certificate of %s ago", since)
		}
		return nil
	})
	return "renewed by the kubelet; the served certificate was signed at " + leaf.NotBefore.Add(5*time.Minute).UTC().Format(time.TimeOnly)
}

// refusesStolenNode makes wrong requests with the kubelet's credentials. The API server refuses another
// node's name, and the signer denies an address with its reason, or waits for one that the Node does not report.
func (c *cluster) refusesStolenNode(t *testing.T, nodes netip.Prefix) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.ofNode("pki", "kubelet.kubeconfig"))
	require.NoError(t, err)
	stolen, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	asks := func(node string, address netip.Addr) (*certificatesv1.CertificateSigningRequest, error) {
		o := hosttest.KubeletRequest(t, &x509.CertificateRequest{
			Subject:     pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
			IPAddresses: []net.IP{address.AsSlice()},
		})
		return stolen.CertificatesV1().CertificateSigningRequests().Create(t.Context(), o, metav1.CreateOptions{})
	}
	_, err = asks("other", c.machine.NodeIP)
	assert.True(t, apierrors.IsForbidden(err), "another node's name: %v", err)
	for reason, address := range map[string]netip.Addr{
		"NameNotPermitted":   c.machine.APIIP,
		"AddressNotReported": nodes.Addr().Next().Next().Next(),
	} {
		o, err := asks(nodeOf(t, c), address)
		require.NoError(t, err, reason)
		c.refuses(t, o, reason)
	}
	return "3 wrong requests with the node's credentials, none of them signed, each with its reason"
}

// refuses fails the test unless the request is not approved, and an event contains the reason.
func (c *cluster) refuses(t *testing.T, o *certificatesv1.CertificateSigningRequest, reason string) {
	t.Helper()
	eventually(t, settling, reason, func(ctx context.Context) error {
		events, err := c.clients.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "regarding.uid=" + string(o.UID)})
		if err != nil {
			return err
		}
		for i := range events.Items {
			if events.Items[i].Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("request %s has %d events, none with reason %s", o.Name, len(events.Items), reason)
	})
	now, err := c.clients.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, now.Status.Certificate, reason)
	for _, condition := range now.Status.Conditions {
		assert.Equal(t, certificatesv1.CertificateDenied, condition.Type, reason)
		assert.Equal(t, reason, condition.Reason)
	}
}

// nodeOf returns the name of the node.
func nodeOf(t *testing.T, c *cluster) string {
	t.Helper()
	nodes, err := c.clients.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 1)
	return nodes.Items[0].Name
}
