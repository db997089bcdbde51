// Package openshift tests, with the processes as they are installed, each as its
// ServiceAccount, that manifests made for OpenShift's service-ca work unchanged
// under --openshift-compat; and that pods of the shape of kube-scheduler get the
// Secret serving-cert, whoever made it.
package openshift

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// plane is a control plane with servingcert installed and running; dir holds its
// programs and what they read.
var (
	plane *controlplane.ControlPlane
	admin client.Client
	dir   string
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{ControllerManager: true}, Programs: harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main}, Installed: true,
	}, func(ctx context.Context, s *harness.Suite) error {
		plane, admin, dir = s.Plane, s.Client, s.Dir
		s.AtEnd(stopAll)
		return startAll(ctx)
	})
}
