package succession

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

// ask asks for a rotation, and does not follow it.
func ask(t *scene, reason string) {
	t.Helper()
	patchStatus(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationRotate: reason}}})
}

// The API server is away between two steps, for so long that nobody can lead any
// more. What goes on afterwards does so by itself.
func TestAPIServerAway(test *testing.T) {
	t := fresh(test)
	signer := start(t, "signer", "--ca-soak=4s", "--ca-reissue-window=2s")
	rotator := start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr := startTraffic(t, "shop", services, time.Now)

	ask(t, "audit")
	require.Eventually(t, func() bool { return len(stored(t).Generations) == 2 }, waitFor, tick)
	prepared := stored(t).Generations[1]
	tr.away.Store(true)
	t.plane.StopAPIServer()
	require.Eventually(t, func() bool { return signer.Restarts() > 0 && rotator.Restarts() > 0 }, waitFor, tick, "nobody leads without an API server")
	require.NoError(t, t.plane.StartAPIServer(t.Context()))
	tr.away.Store(false)

	signedBy(t, "2")
	state := stored(t)
	require.Len(t, state.Generations, 2)
	assert.True(t, state.Generations[1].Root.Equal(prepared.Root), "it is the generation that was made before")
	assert.Nil(t, state.Generations[0].Key)
	require.Eventually(t, func() bool { return len(tr.issuers()) == 1 && strings.HasPrefix(tr.issuers()[0], "servingcert CA 2 ") }, waitFor, tick)
	tr.requireNoFailure(t)
}

// The signer that leads dies right after it let the new generation sign, before
// it said so to anybody. The one that stood by goes on with that generation.
func TestLeaderDiesAfterPromote(test *testing.T) {
	t := fresh(test)
	leader := start(t, "signer", "--ca-soak=2s", "--ca-reissue-window=1h") // it replaces nothing, however late it is killed
	start(t, "trust")
	makeShop(t, "shop", services, nil)
	standby := start(t, "signer", "--ca-soak=2s", "--ca-reissue-window=6s")
	tr := startTraffic(t, "shop", services, time.Now)

	ask(t, "audit")
	require.Eventually(t, func() bool { return stored(t).Signing == 2 }, waitFor, time.Millisecond)
	leader.Kill()
	promoted := secret(t)

	signedBy(t, "2")
	assert.Equal(t, promoted.Data, secret(t).Data, "what was decided stands")
	require.Len(t, stored(t).Generations, 2)
	assert.NotContains(t, standby.Log.String(), "the CA took a step")
	assert.Contains(t, standby.Log.String(), "reason=CASucceeded", "it replaced what was left")
	for i := range services {
		assert.True(t, strings.HasPrefix(served(t, "shop", i)[0].Issuer.CommonName, "servingcert CA 2 "))
	}
	assert.Equal(t, "generation 2 was made and signs", status(t).Data[api.CARotationOutcome])
	tr.requireNoFailure(t)
}
