package consumers

import (
	"fmt"
	"testing"
	"time"

	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// running is a rotator.
type running struct{ *harness.Rotator }

// startRotator runs one that is fast.
func startRotator(t testing.TB, changes ...func(*rotator.Config)) running {
	t.Helper()
	return running{harness.StartRotator(t, account, append([]func(*rotator.Config){func(cfg *rotator.Config) {
		cfg.Probe.Timeout = time.Minute
		cfg.Serving.Pause, cfg.Serving.PropagationTime, cfg.Serving.Interval = 100*time.Millisecond, 2*time.Second, 3*time.Second
	}}, changes...)...)}
}

// observed waits until the histogram has so many observations, which it has a moment after what is
// observed can be seen.
func (r running) observed(t *testing.T, histogram string, want int) {
	t.Helper()
	harness.Eventually(t, func() error {
		if n := r.Metrics(t).Sum(histogram); int(n) != want {
			return fmt.Errorf("%s has %v observations, want %d", histogram, n, want)
		}
		return nil
	})
}

// counts waits until the namespace has these numbers of consumers by state.
func (r running) counts(t *testing.T, namespace string, want map[string]int) {
	t.Helper()
	harness.Eventually(t, func() error {
		got, m := map[string]int{}, r.Metrics(t)
		for _, state := range []string{"current", "propagating", "stale", "foreign", "plaintext", "not_verified", "unreachable", "pending", "not_ready", "no_port"} {
			if labels := []string{"namespace", namespace, "state", state}; len(m.With("servingcert_consumers", labels...)) > 0 {
				got[state] = int(m.Sum("servingcert_consumers", labels...))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("consumers of %s are %v, want %v", namespace, got, want)
		}
		return nil
	})
}
