package lifecycle

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// restarts is how often the whole Deployment is restarted.
const restarts = 20

// drains has a replica answer for far longer than a balancer is late.
const drains = "--shutdown-delay=3s"

// Two replicas of the webhook are restarted one after the other, as a Deployment with
// maxSurge 1 and maxUnavailable 0 does: a new one is started, and once it is ready an old
// one is told to end. Pods are created all the while, and none is refused.
func TestRollingRestartsRefuseNothing(t *testing.T) {
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))
	start(t, "signer", true)
	start(t, "trust", true)
	start(t, "rotator", true, "--pod-cidrs=127.0.0.0/8")
	service := newBalancer(t)
	replicas := []*program{service.replica(t, dir, drains), service.replica(t, dir, drains)}
	harness.NewNamespace(t, admin, "rolling", true)
	web := harness.NewService(t, admin, "rolling", "web")
	isReady(t, web, "Issued")
	isInjected(t, web)

	pods := newStream(t, web, 4)
	ending, ends := 0, make(chan error)
	for range restarts {
		for i, old := range replicas {
			replicas[i] = service.replica(t, dir, drains)
			ending++
			go func() { ends <- old.Stop() }()
			pods.meanwhile(t)
		}
	}
	for range ending {
		assert.NoError(t, <-ends)
	}
	pods.all(t)
}
