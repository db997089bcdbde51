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
