package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/test/signertest"
)

// writeClients writes a CA for clients, and the key and certificate of one, as the kubelet does.
func writeClients(t *testing.T, dir string) (ca, identity string) {
	t.Helper()
	rootKey, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(rootKey, 1, pki.ForClients("example.com"), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/ns/shop/sa/cart"}},
	}
	leaf := signertest.Certify(t, template, root, key.Public(), rootKey)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	ca, identity = filepath.Join(dir, "clients-ca.crt"), filepath.Join(dir, "identity.pem")
	require.NoError(t, os.WriteFile(ca, pki.EncodeCertificates(root), 0o600))
	require.NoError(t, os.WriteFile(identity, slices.Concat(keyPEM, pki.EncodeCertificates(leaf)), 0o600))
	return ca, identity
}

// The program with the flags that the webhook sets: a client with an identity is served, others are not.
func TestGuard(t *testing.T) {
	program, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := &http.Server{ReadHeaderTimeout: process.Soon, Handler: http.NotFoundHandler()}
	go func() { _ = served.Serve(program) }()
	t.Cleanup(func() { _ = served.Close() })
	dir := t.TempDir()
	writePair(t, dir)
	ca, identity := writeClients(t, dir)
	list := filepath.Join(dir, "clients")
	require.NoError(t, os.WriteFile(list, []byte("sc-tls-web=shop/cart"), 0o600))
	port, admin := int(process.PortFor(t, "")), int(process.PortFor(t, ""))
	cmd, stderr := exec.Command(programs.Path(t, "proxy"), fmt.Sprintf("%s=sc-tls-web=%d:%d", api.ProxyFlagListen, port, program.Addr().(*net.TCPAddr).Port),
		api.ProxyFlagCertDir+"="+dir, fmt.Sprintf("%s=127.0.0.1:%d", api.ProxyFlagAdmin, admin), api.ProxyFlagClients+"="+list, api.ProxyFlagClientCA+"="+ca), &bytes.Buffer{}
	cmd.Stderr = stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	get := func(address string, certs ...tls.Certificate) (string, error) {
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}} //nolint:gosec // any certificate
		response, err := (&http.Client{Transport: transport, Timeout: process.Soon}).Get(address)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	require.Eventually(t, func() bool {
		body, err := get(fmt.Sprintf("http://127.0.0.1:%d/readyz", admin))
		return err == nil && body == "ok\n"
	}, process.Soon, process.Tick)
	cart, err := tls.LoadX509KeyPair(identity, identity)
	require.NoError(t, err)
	body, err := get(fmt.Sprintf("https://127.0.0.1:%d", port), cart)
	require.NoError(t, err)
	require.Equal(t, "404 page not found\n", body)
	_, err = get(fmt.Sprintf("https://127.0.0.1:%d", port))
	require.ErrorContains(t, err, "tls: certificate required")
	body, err = get(fmt.Sprintf("http://127.0.0.1:%d/clients", admin))
	require.NoError(t, err)
	require.Contains(t, body, `"identity":"spiffe://example.com/ns/shop/sa/cart"`)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), stderr)
}

// The program does not start with an identity that is not valid.
func TestIdentityThatIsNotValid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nsswitch.conf")
	require.NoError(t, os.WriteFile(file, []byte("hosts: dns\n"), 0o600))
	c := &Config{
		Connect: []string{"127.1.0.1:80=api.shop.svc:443"}, CAFile: file, Identity: file, ClusterDomain: "cluster.local",
		AdminAddress: fmt.Sprintf("127.0.0.1:%d", int(process.PortFor(t, ""))), Limits: proxy.DefaultLimits(),
	}
	require.NoError(t, c.validate(os.Getenv))
	err := c.serve(t.Context(), file, slog.New(slog.DiscardHandler))
	require.EqualError(t, err, "--identity: "+file+": no PEM block in the private key")
}
