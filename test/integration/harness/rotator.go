package harness

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
)

// Rotator is one that runs in the tests' process.
type Rotator struct {
	Registry *prometheus.Registry
	Stop     func() // returns when it has ended
}

// StartRotator runs a rotator with the rights of the account until the test ends, or it is stopped. Its Lease has to
// exist. It acts soon, and dials pods on loopback, where those of tests listen.
func StartRotator(t testing.TB, account *rest.Config, changes ...func(*rotator.Config)) *Rotator {
	t.Helper()
	registry := prometheus.NewRegistry()
	mgr, err := NewRotator(account, "0", registry, changes...)
	require.NoError(t, err)
	ended := RunManager(mgr)
	r := &Rotator{registry, func() { require.NoError(t, ended()) }}
	t.Cleanup(r.Stop)
	return r
}

// NewRotator returns the manager of such a rotator, which serves controller-runtime's metrics at an address.
func NewRotator(account *rest.Config, metricsAddress string, registry prometheus.Registerer, changes ...func(*rotator.Config)) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := rotator.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: scheme, Metrics: ctrlmetricsserver.Options{BindAddress: metricsAddress},
		LeaderElection: true, LeaderElectionID: "servingcert-rotator", LeaderElectionNamespace: api.DefaultNamespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	cfg := rotator.DefaultConfig()
	cfg.Cluster.Now, cfg.Cluster.Metrics, cfg.Cluster.Delay = time.Now, registry, 20*time.Millisecond
	cfg.Probe.PodCIDRs = []string{"127.0.0.0/8", "::1/128"}
	for _, change := range changes {
		change(&cfg)
	}
	return mgr, rotator.Setup(mgr, cfg)
}

// Metrics returns the rotator's metrics.
func (r *Rotator) Metrics(t testing.TB) process.Families { return Metrics(t, r.Registry) }

// Metrics returns the metrics of a registry.
func Metrics(t testing.TB, registry prometheus.Gatherer) process.Families {
	t.Helper()
	m, err := process.Gather(registry)
	require.NoError(t, err)
	return m
}
