// Package rights tests that each rule of install.yaml's roles is used by a process,
// and that no request of a process is refused: the programs run as they are
// installed, each as its ServiceAccount, one scene has them do everything that
// they do, and the API server's audit log tells which requests they sent.
package rights

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

// programs, and the ServiceAccount of each.
var programs = []string{"signer", "trust", "rotator", "webhook"}

func accountOf(program string) string {
	return "system:serviceaccount:" + system + ":servingcert-" + program
}

var (
	plane *controlplane.ControlPlane
	admin client.Client // sees everything, without a cache
	dir   string        // the programs, and what they read
)

func TestMain(m *testing.M) {
	options := controlplane.Options{Features: controlplane.Features()}
	for _, program := range programs {
		options.AuditUsers = append(options.AuditUsers, accountOf(program))
	}
	harness.Run(m, harness.Setup{ControlPlane: options, Programs: harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main}, Installed: true}, func(ctx context.Context, s *harness.Suite) error {
		plane, admin, dir = s.Plane, s.Client, s.Dir
		return withGatewayAPI(ctx)
	})
}

// backendTLS is what is in deploy/policies beside install.yaml and whose rights are looked at, too.
const backendTLS = "backend-tls-policies.yaml"

// withGatewayAPI applies that file, and the kind that it is about. Rules of other kinds of the Gateway API are not for Kubernetes 1.30.
func withGatewayAPI(ctx context.Context) error {
	crds, err := controlplane.GatewayCRDs(ctx)
	if err != nil {
		return err
	}
	kinds, err := deploy.Decode(crds)
	if err != nil {
		return err
	}
	kinds = slices.DeleteFunc(kinds, func(o *unstructured.Unstructured) bool {
		return o.GetName() != "backendtlspolicies.gateway.networking.k8s.io"
	})
	optional, err := harness.Optional(backendTLS)
	if err != nil {
		return err
	}
	return deploy.ApplyObjects(ctx, admin, "test", append(kinds, optional...))
}
