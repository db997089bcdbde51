package webhook_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// webhookProcess is a running cmd/webhook and where it is reached.
type webhookProcess struct {
	harness.Program
	kubeconfig, dir string
	address         string // the ClusterIP of its Service
	metrics         string // host:port
	authority       *certs.Authority
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
	if w.authority, err = certs.New(filepath.Join(dir, "ca"), "ca", "test"); err != nil {
		return nil, err
	}
	if w.address, err = applyInstallation(ctx, w.authority.CAPEM); err != nil {
		return nil, err
	}
	cfg, err := cluster.ServiceAccountConfig(ctx, systemNamespace, webhookName)
	if err != nil {
		return nil, err
	}
	if err := controlplane.WriteKubeconfig(w.kubeconfig, cfg); err != nil {
		return nil, err
	}
	if err := w.writePair(w.dir); err != nil {
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

// writePair writes the webhook's certificate and key, which the CA has signed in the signer's stead.
func (w *webhookProcess) writePair(dir string) error {
	pair, err := w.authority.Issue("webhook", &x509.Certificate{
		DNSNames: []string{webhookName + "." + systemNamespace + ".svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return errors.Join(err, os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), pair.CertPEM, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pair.KeyPEM, 0o600))
}
