// Package restart tests what the rotator restarts, against a real kube-apiserver,
// etcd and kube-controller-manager, with the rights that deploy/install.yaml gives
// the rotator's ServiceAccount and no more: pods that serve what they read when
// they started, listeners on loopback that serve it, and workloads that make them
// anew.
//
// There is no kubelet: the test says of each pod that it runs, with an address of
// its own, and listens there.
package restart

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

var (
	cluster *controlplane.ControlPlane
	account *rest.Config  // the rotator's
	admin   client.Client // sees everything, without a cache
	node    *kubelet
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{ControlPlane: controlplane.Options{ControllerManager: true}, RightsOf: "rotator"}, prepare)
}

// prepare makes what an installation has before the rotator starts, and starts the kubelet.
func prepare(ctx context.Context, s *harness.Suite) (err error) {
	cluster, admin = s.Plane, s.Client
	if account, err = cluster.ServiceAccountConfig(ctx, system, "servingcert-rotator"); err != nil {
		return err
	}
	if node, err = newKubelet(); err != nil {
		return err
	}
	if err := admin.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CAStatusName},
		Data:       map[string]string{api.BundleKey: string(node.ca.bundle())},
	}); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.Background())
	s.AtEnd(func() error { stop(); return node.wait() })
	node.start(running)
	return nil
}

// startRotator runs one until the test ends, or stop is called. It is a short
// while's work to it what would be minutes on a node.
func startRotator(t *testing.T, change func(*rotator.Config)) (registry *prometheus.Registry, stop func()) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, rotator.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(account, ctrl.Options{Scheme: scheme, Metrics: ctrlmetricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	registry = prometheus.NewRegistry()
	cfg := rotator.DefaultConfig()
	cfg.Cluster.Now, cfg.Cluster.Metrics, cfg.Cluster.Delay = time.Now, registry, 20*time.Millisecond
	cfg.Probe.PodCIDRs = []string{"127.0.0.0/8"} // pods are listeners on loopback here
	cfg.Serving.PropagationTime, cfg.Serving.Interval, cfg.Serving.Pause = time.Second, time.Second, 50*time.Millisecond
	cfg.Uninjected.Patience, cfg.Restart.Patience = 500*time.Millisecond, 500*time.Millisecond
	cfg.Restart.Poll, cfg.Restart.Retry = 50*time.Millisecond, 200*time.Millisecond
	if change != nil {
		change(&cfg)
	}
	require.NoError(t, rotator.Setup(mgr, cfg))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return registry, stop
}
