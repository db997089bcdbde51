// Package webhook_test runs cmd/webhook as a process of its own, with no more
// rights than it needs, against a real kube-apiserver that reaches it through
// its Service.
package webhook_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// cluster is the one control plane of this package's tests.
var (
	cluster *controlplane.ControlPlane
	client  kubernetes.Interface // cluster-admin
	hook    *webhookProcess
	plugin  string // path of kubectl-servingcert

	// clientAuthority issued the certificate that kube-apiserver presents to the webhook.
	clientAuthority *certs.Authority
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{NoControlPlane: true, Programs: harness.Programs{"webhook": webhookapp.Main, "kubectl-servingcert": pluginapp.Main}}, prepare)
}

// prepare starts a control plane that has a certificate for webhooks, and the webhook.
func prepare(ctx context.Context, s *harness.Suite) error {
	var presents string
	var err error
	if clientAuthority, presents, err = configureClientCertificate(filepath.Join(s.Dir, "clients")); err != nil {
		return err
	}
	if err := s.StartPlane(ctx, controlplane.Options{Features: controlplane.Features(), ExtraAPIServerArgs: []string{presents}}); err != nil {
		return err
	}
	cluster, client, plugin = s.Plane, s.Clientset, filepath.Join(s.Dir, "kubectl-servingcert")
	if hook, err = install(ctx, s.Dir); err != nil {
		return err
	}
	s.AtEnd(func() error { hook.Kill(); return hook.Err() })
	if err := hook.AwaitReady(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, hook.Log.String())
	}
	return nil
}
