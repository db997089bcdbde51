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
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// webhookProcess is a running cmd/webhook and where it is reached.
type webhookProcess struct {
	binary, kubeconfig, dir string
	address                 string // the ClusterIP of its Service
	health, metrics         string // host:port
	authority               *authority

	mu  sync.Mutex
	cmd *exec.Cmd
	log harness.Log
}

// webhookPort is the Service's port and the process's: nothing translates one
// into the other.
const webhookPort = 9443

// install applies what the webhook needs of an installation, and starts it as
// its ServiceAccount.
func install(ctx context.Context, dir string) (*webhookProcess, error) {
	w := &webhookProcess{
		binary: filepath.Join(dir, "webhook"), kubeconfig: filepath.Join(dir, "kubeconfig"), dir: filepath.Join(dir, "certs"),
	}
	if err := harness.Build(ctx, dir, "webhook"); err != nil {
		return nil, err
	}
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
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, addr := range []*string{&w.health, &w.metrics} {
		port, err := harness.FreeAddress()
		if err != nil {
			return err
		}
		*addr = port
	}
	w.cmd = exec.Command(w.binary, append([]string{
		"--kubeconfig", w.kubeconfig, "--cert-dir", certDir, "--bind-address", w.address, "--port", fmt.Sprint(webhookPort),
		"--health-addr", w.health, "--metrics-addr", w.metrics, "--metrics-insecure", "--log-level", "info",
	}, flags...)...)
	w.cmd.Stderr = &w.log
	dieWithParent(w.cmd)
	return w.cmd.Start()
}

func (w *webhookProcess) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cmd == nil {
		return
	}
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	w.cmd = nil
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

func (w *webhookProcess) ready(ctx context.Context) error {
	_, err := get(ctx, "http://"+w.health+"/readyz")
	return err
}

func (w *webhookProcess) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := w.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the webhook does not become ready: %w\n%s", err, w.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
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
