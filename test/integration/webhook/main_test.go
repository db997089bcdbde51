// Package webhook_test runs cmd/webhook as a process of its own, with no more
// rights than it needs, against a real kube-apiserver that reaches it through
// its Service.
package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// cluster is the one control plane of this package's tests.
var (
	cluster *controlplane.ControlPlane
	client  kubernetes.Interface // cluster-admin
	hook    *webhookProcess

	// clientAuthority issued the certificate that kube-apiserver presents to the webhook.
	clientAuthority *certs.Authority
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	harness.Main(m, runTests)
}

func runTests(m *testing.M) (code int, err error) {
	// The first run on a machine may have to build the control plane.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	clientDir, err := os.MkdirTemp("", "servingcert-clients-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(clientDir) }()
	var presents string
	if clientAuthority, presents, err = configureClientCertificate(clientDir); err != nil {
		return 1, err
	}
	if cluster, err = controlplane.Start(ctx, controlplane.Options{Features: controlplane.Features(), ExtraAPIServerArgs: []string{presents}}); err != nil {
		return 1, err
	}
	defer func() { _ = cluster.Stop() }()
	if client, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "servingcert-webhook-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if hook, err = install(ctx, dir); err != nil {
		return 1, err
	}
	defer func() { hook.Kill(); err = errors.Join(err, hook.Err()) }()
	if err := hook.AwaitReady(ctx); err != nil {
		return 1, fmt.Errorf("%w\n%s", err, hook.Log.String())
	}
	return m.Run(), nil
}
