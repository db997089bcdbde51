// Package rotator tests pkg/rotator against a real kube-apiserver, etcd and
// kube-controller-manager, with the rights that deploy/install.yaml gives the
// rotator's ServiceAccount and no more.
//
// One rotator runs for all tests, which have a namespace each. Pods are changed
// by a webhook that answers with pkg/mutate's decision, unless it is away.
package rotator

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

// maxEvents is how many workloads are told of one by one.
const maxEvents = 5

var (
	cluster *controlplane.ControlPlane
	account *rest.Config  // the rotator's
	admin   client.Client // sees everything, without a cache
	webhook *fakeWebhook
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{ControlPlane: controlplane.Options{ControllerManager: true}, RightsOf: "rotator"}, prepare)
}

// prepare starts a webhook, and the rotator of all tests.
func prepare(ctx context.Context, s *harness.Suite) (err error) {
	cluster, account, admin = s.Plane, s.Account, s.Client
	if err := harness.CreateLease(ctx, admin, "servingcert-rotator"); err != nil {
		return err
	}
	if metricsAddress, err = harness.FreeAddress(); err != nil {
		return err
	}
	if webhook, err = startWebhook(ctx); err != nil {
		return err
	}
	s.AtEnd(func() error { webhook.Close(); return nil })
	mgr, err := newManager(account, metricsAddress, metrics.Registry)
	if err != nil {
		return err
	}
	s.AtEnd(harness.RunManager(mgr))
	return nil
}

// newManager returns a process that does nothing but find missed pods, once it
// leads.
func newManager(cfg *rest.Config, metricsAddr string, registry prometheus.Registerer) (manager.Manager, error) {
	return harness.NewRotator(cfg, metricsAddr, registry, func(c *rotator.Config) {
		c.Uninjected.Patience, c.Uninjected.MaxEvents = 500*time.Millisecond, maxEvents
	})
}
