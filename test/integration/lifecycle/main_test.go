// Package lifecycle tests what happens to pods and certificates while servingcert is
// installed, upgraded, restarted and taken away: the three programs run as they are
// installed, each as its ServiceAccount, and pods are created all the while.
package lifecycle

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

var (
	plane *controlplane.ControlPlane
	admin client.Client // sees everything, without a cache
	dir   string        // the programs, and what they read
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{ControllerManager: true}, // namespaces are to go away when they are deleted
		Programs:     harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main, "kubectl-servingcert": plugin},
	}, func(_ context.Context, s *harness.Suite) error {
		plane, admin, dir = s.Plane, s.Client, s.Dir
		return nil
	})
}
