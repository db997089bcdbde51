//go:build long

package trust

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/integration/harness"
)

// The API server's absence costs time, and nothing else.
func TestAPIServerAway(t *testing.T) {
	first, second := newBundle(t), newBundle(t)
	setSource(t, first)
	r := startRotator(t)
	ns := newNamespace(t)
	create(t, mutating("away", byService("a")))
	holds(t, ns, first)
	caBundles(t, "away", first)

	cluster.StopAPIServer()
	harness.Eventually(t, func() error { // watches broke, and were tried again in vain
		if n := r.requests.failed(); n < 10 {
			return fmt.Errorf("%d requests failed", n)
		}
		return nil
	})
	require.NoError(t, cluster.StartAPIServer(t.Context()))

	setSource(t, second)
	holds(t, ns, second)
	caBundles(t, "away", second)
	passed(t, second)
}

// failed returns how many requests got no answer.
func (r *requests) failed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}
