package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// webhookProcess is a running cmd/webhook and where it is reached.
type webhookProcess struct {
	harness.Program
	kubeconfig, dir string
	address         string // the ClusterIP of its Service
	metrics         string // host:port
	authority       *authority
}

// webhookPort is the Service's port and the process's: nothing translates one
// into the other.
const webhookPort = 9443

// install applies what the webhook needs of an installation, and starts it as
// its ServiceAccount.
func install(ctx context.Context, dir string) (*webhookProcess, error) {
	w := &webhookProcess{kubeconfig: filepath.Join(dir, "kubeconfig"), dir: filepath.Join(dir, "certs")}
	w.Path = filepath.Join(dir, "webhook")
	var err error
	if w.authority, err = newAuthority(); err != nil {
		return nil, err
	}
	if w.address, err = applyInstallation(ctx, w.authority.certPEM); err != nil {
		return nil, err
	}
	cfg, err := cluster.ServiceAccountConfig(ctx, systemNamespace, webhookName)
	if err != nil {
		return nil, err
	}
	if err := controlplane.WriteKubeconfig(w.kubeconfig, cfg); err != nil {
		return nil, err
	}
	if err := w.authority.writePair(w.dir, webhookName+"."+systemNamespace+".svc"); err != nil {
		return nil, err
	}
	return w, w.start(w.dir)
}

// start runs the process, with further flags. It may be stopped and started again.
func (w *webhookProcess) start(certDir string, flags ...string) error {
	var err error
	if w.metrics, err = harness.FreeAddress(); err != nil {
		return err
	}
	w.Args = append([]string{
		"--kubeconfig", w.kubeconfig, "--cert-dir", certDir, "--bind-address", w.address, "--port", fmt.Sprint(webhookPort),
		"--metrics-addr", w.metrics, "--metrics-insecure", "--log-level", "info",
	}, flags...)
	return w.Run()
}

// get returns the body of a page of the process's own, if its status is 200.
func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// authority signs the webhook's certificate, in the signer's stead.
type authority struct {
	key     *ecdsa.PrivateKey
	cert    *x509.Certificate
	certPEM []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{key, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// writePair writes tls.crt and tls.key for a server of that name.
func (a *authority) writePair(dir, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
}
