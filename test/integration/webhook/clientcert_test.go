package webhook_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// apiServerName is the common name of the certificate that kube-apiserver presents to the
// webhook, if asked.
const apiServerName = "kube-apiserver-admission"

// The two files as docs/webhook-client-certificate.md has them.
const (
	admissionConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: MutatingAdmissionWebhook
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: WebhookAdmissionConfiguration
      kubeConfigFile: %s
`
	admissionKubeconfig = `apiVersion: v1
kind: Config
users:
  - name: servingcert-webhook.servingcert-system.svc:9443
    user:
      client-certificate: %s
      client-key: %s
`
)

// configureClientCertificate makes a CA and a certificate of it for kube-apiserver, and
// returns the CA and the flag with which kube-apiserver presents the certificate.
func configureClientCertificate(dir string) (ca *certs.Authority, flag string, err error) {
	if ca, err = certs.New(dir, "ca", "clients of webhooks"); err != nil {
		return nil, "", err
	}
	pair, err := ca.IssueClient("apiserver", apiServerName)
	if err != nil {
		return nil, "", err
	}
	kubeconfig, configuration := filepath.Join(dir, "admission.kubeconfig"), filepath.Join(dir, "admission.yaml")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, admissionKubeconfig, pair.CertFile, pair.KeyFile), 0o600); err != nil {
		return nil, "", err
	}
	return ca, "--admission-control-config-file=" + configuration, os.WriteFile(configuration, fmt.Appendf(nil, admissionConfiguration, kubeconfig), 0o600)
}

// strangersTLS is how any pod of the cluster could call the webhook, with a client certificate
// or with none.
func strangersTLS(t require.TestingT, pairs ...certs.KeyPair) (config *tls.Config, address string) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(hook.authority.CAPEM)
	config = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: webhookName + "." + systemNamespace + ".svc"}
	for _, p := range pairs {
		pair, err := tls.X509KeyPair(p.CertPEM, p.KeyPEM)
		require.NoError(t, err)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config, net.JoinHostPort(hook.address, fmt.Sprint(webhookPort))
}

// alert returns that with which the webhook ends a stranger's handshake. In TLS 1.3 it
// follows what is a whole handshake to the client. Whoever sends a request meanwhile may find
// the connection closed before it reads the alert, so nothing is sent.
func alert(t *testing.T, pairs ...certs.KeyPair) error {
	t.Helper()
	config, address := strangersTLS(t, pairs...)
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the other side may have gone before
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(harness.Soon)))
	_, err = conn.Read(make([]byte, 1))
	return err
}

// stranger sends a review to the webhook as any pod of the cluster could.
func stranger(t require.TestingT, ctx testing.TB, pairs ...certs.KeyPair) error {
	config, address := strangersTLS(t, pairs...)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx.Context(), http.MethodPost, "https://"+address+admission.Path, strings.NewReader("{}"))
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// TestOnlyTheAPIServerIsAnswered: with --client-ca-file, a review of kube-apiserver is
// answered, and a call of anybody else ends in the handshake. The health port needs no
// certificate.
func TestOnlyTheAPIServerIsAnswered(t *testing.T) {
	ns := namespace(t, enabled)
	createService(t, t, ns, webService("web"))
	require.NoError(t, stranger(t, t), "without the flag, whoever reaches the port is answered")

	other, err := certs.New(t.TempDir(), "ca", "others")
	require.NoError(t, err)
	issue := func(ca *certs.Authority, name string) certs.KeyPair {
		pair, err := ca.IssueClient("client-"+name, name)
		require.NoError(t, err)
		return pair
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, clientAuthority.CAPEM, 0o600))
	restart(t, hook.dir, "--client-ca-file", file, "--client-names", apiServerName)
	t.Cleanup(func() { restart(t, hook.dir) })

	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), metav1.CreateOptions{})
	require.NoError(t, err)
	injected(t, pod, "web-tls")
	for _, refused := range []struct {
		with  string
		pairs []certs.KeyPair
	}{
		{"tls: certificate required", nil},
		{"tls: unknown certificate authority", []certs.KeyPair{issue(other, apiServerName)}},
		{"tls: bad certificate", []certs.KeyPair{issue(clientAuthority, "system:node:n1")}},
	} {
		require.ErrorContains(t, alert(t, refused.pairs...), refused.with)
		require.Error(t, stranger(t, t, refused.pairs...), refused.with)
	}
	require.NoError(t, stranger(t, t, issue(clientAuthority, apiServerName)))

	// The file names another CA: kube-apiserver is a stranger too, until it is back.
	create := func() error {
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("later"), dryRun)
		return err
	}
	require.NoError(t, os.WriteFile(file, other.CAPEM, 0o600))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, stranger(c, t, issue(other, apiServerName)))
	}, harness.Soon, 50*time.Millisecond)
	require.Error(t, stranger(t, t, issue(clientAuthority, apiServerName)))
	require.NoError(t, os.WriteFile(file, append(other.CAPEM, clientAuthority.CAPEM...), 0o600))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, stranger(c, t, issue(clientAuthority, apiServerName)))
		assert.NoError(c, create())
	}, harness.Soon, 50*time.Millisecond)
}

// TestTheClientCAMayComeLater: until it is there, nobody is answered and the webhook is not
// ready.
func TestTheClientCAMayComeLater(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	hook.Kill()
	t.Cleanup(func() { restart(t, hook.dir) })
	require.NoError(t, hook.start(hook.dir, "--client-ca-file", file))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, controlplane.GetOK(t.Context(), http.DefaultClient, "http://"+hook.Health()+"/healthz"))
		assert.Contains(c, hook.Log.String(), "not ready: waiting for the client CA")
	}, harness.Soon, 20*time.Millisecond)
	require.Error(t, hook.Ready(t.Context()))
	require.Error(t, stranger(t, t))

	require.NoError(t, os.WriteFile(file, clientAuthority.CAPEM, 0o600))
	require.NoError(t, hook.AwaitReady(t.Context()))
}
