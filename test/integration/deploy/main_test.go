// Package deploy tests deploy/install.yaml against a real API server: that it
// can be applied and applied again, what each ServiceAccount may and may not do,
// and what the admission policies and the webhook's selectors let through.
package deploy

import (
	"context"
	"errors"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var update = flag.Bool("update", false, "write what is seen into testdata, where it is compared")

const owner = "test"

var (
	// cluster is the control plane that all tests share: install.yaml is applied to
	// it, and none of servingcert's processes runs.
	cluster *controlplane.ControlPlane
	// clients are those of the administrator, "", and of ServiceAccounts. A new one asks the
	// API server what it serves, which takes longer than most tests.
	clients = map[string]client.Client{}
)

func TestMain(m *testing.M) {
	flag.Parse()
	harness.Run(m, harness.Setup{ControlPlane: controlplane.Options{
		ControllerManager: true,
		Features:          []controlplane.Feature{controlplane.ClusterTrustBundles},
		Without:           []controlplane.Feature{controlplane.PodCertificates},
	}}, func(ctx context.Context, s *harness.Suite) error {
		cluster, clients[""] = s.Plane, s.Client
		if err := makeOldObjects(ctx, s.Client); err != nil {
			return err
		}
		return errors.Join(deploy.Apply(ctx, s.Client, owner), harness.PoliciesInForce(ctx, s.Client))
	})
}

func adminClient(*testing.T) client.Client { return clients[""] }

// as returns a client with the rights of one of servingcert's ServiceAccounts.
func as(t *testing.T, account string) client.Client {
	t.Helper()
	if clients[account] == nil {
		cfg, err := cluster.ServiceAccountConfig(t.Context(), api.DefaultNamespace, account)
		require.NoError(t, err)
		clients[account], err = client.New(cfg, client.Options{})
		require.NoError(t, err)
	}
	return clients[account]
}

// newNamespace makes a namespace, opted in or not.
func newNamespace(t *testing.T, optedIn bool) string {
	t.Helper()
	return harness.NewNamespace(t, adminClient(t), "shop-", optedIn)
}
