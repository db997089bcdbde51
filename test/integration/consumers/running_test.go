package consumers

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// running is a rotator.
type running struct {
	registry *prometheus.Registry
	stop     func()
}

// startRotator runs one until the test ends, or stop is called; it is fast.
func startRotator(t testing.TB, changes ...func(*rotator.Config)) *running {
	t.Helper()
	r := &running{registry: prometheus.NewRegistry()}
	cfg := rotator.DefaultConfig()
	cfg.Cluster.Now, cfg.Cluster.Metrics = time.Now, r.registry
	cfg.Cluster.Delay, cfg.Probe.Timeout = 20*time.Millisecond, time.Minute
	cfg.Probe.PodCIDRs = []string{"127.0.0.0/8", "::1/128"} // pods are listeners on loopback here
	cfg.Serving.Pause, cfg.Serving.PropagationTime, cfg.Serving.Interval = 100*time.Millisecond, 2*time.Second, 3*time.Second
	for _, change := range changes {
		change(&cfg)
	}
	scheme := runtime.NewScheme()
	require.NoError(t, rotator.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: scheme, Metrics: ctrlmetricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "servingcert-rotator", LeaderElectionNamespace: system, LeaderElectionReleaseOnCancel: true,
	})
	require.NoError(t, err)
	require.NoError(t, rotator.Setup(mgr, cfg))
	ended := harness.RunManager(mgr)
	r.stop = func() { require.NoError(t, ended()) }
	t.Cleanup(r.stop)
	return r
}

// metric returns the sum of the series with all of these labels, and whether there
// is any; of a histogram the number of observations.
func (r *running) metric(t *testing.T, name string, labels map[string]string) (sum float64, found bool) {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			has := func(l *dto.LabelPair) bool { return labels[l.GetName()] == l.GetValue() && l.GetValue() != "" }
			matching := 0
			for _, l := range m.GetLabel() {
				if has(l) {
					matching++
				}
			}
			if f.GetName() == name && matching == len(labels) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				found = true
			}
		}
	}
	return sum, found
}

// observed waits until the histogram has so many observations, which it has a moment after what is
// observed can be seen.
func (r *running) observed(t *testing.T, histogram string, want int) {
	t.Helper()
	harness.Eventually(t, func() error {
		if n, _ := r.metric(t, histogram, nil); int(n) != want {
			return fmt.Errorf("%s has %v observations, want %d", histogram, n, want)
		}
		return nil
	})
}

// counts waits until the namespace has these numbers of consumers by state.
func (r *running) counts(t *testing.T, namespace string, want map[string]int) {
	t.Helper()
	harness.Eventually(t, func() error {
		got := map[string]int{}
		for _, state := range []string{"current", "propagating", "stale", "foreign", "plaintext", "not_verified", "unreachable", "pending", "not_ready", "no_port"} {
			if n, ok := r.metric(t, "servingcert_consumers", map[string]string{"namespace": namespace, "state": state}); ok {
				got[state] = int(n)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("consumers of %s are %v, want %v", namespace, got, want)
		}
		return nil
	})
}
