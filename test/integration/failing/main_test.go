// Package failing tests how pods are reported that fail after the webhook gave them something,
// against a real kube-apiserver and etcd, with the rights that deploy/install.yaml gives the
// rotator's ServiceAccount and no more.
//
// The tests play everybody else: the kubelet, which says how containers ended, and the controllers
// and operators, which make and delete pods. The webhook's own function injects them.
package failing

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	account *rest.Config  // the rotator's
	admin   client.Client // sees everything, without a cache
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{RightsOf: "rotator"}, func(_ context.Context, s *harness.Suite) error {
		admin, account = s.Client, s.Account
		return nil
	})
}

// startRotator runs one until the test ends, or stop is called.
func startRotator(t *testing.T) (registry *prometheus.Registry, stop func()) {
	t.Helper()
	registry = prometheus.NewRegistry()
	cfg := rotator.DefaultConfig()
	cfg.Cluster.Now, cfg.Cluster.Metrics, cfg.Cluster.Delay = time.Now, registry, 20*time.Millisecond
	cfg.Serving.Verify = false // nobody listens here
	scheme := runtime.NewScheme()
	require.NoError(t, rotator.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(account, ctrl.Options{Scheme: scheme, Metrics: ctrlmetricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	require.NoError(t, rotator.Setup(mgr, cfg))
	ended := harness.RunManager(mgr)
	stop = func() { require.NoError(t, ended()) }
	t.Cleanup(stop)
	return registry, stop
}
