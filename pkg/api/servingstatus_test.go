package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

func drawStale(t *rapid.T) api.StaleWorkload {
	w := api.StaleWorkload{
		Namespace: rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "namespace"),
		Kind:      rapid.SampledFrom([]string{"Deployment", "StatefulSet", api.PodKind}).Draw(t, "kind"),
		Name:      rapid.StringMatching(`[a-z]{1,4}`).Draw(t, "name"),
		Secret:    "web-tls",
		Leaf:      drawLeaf(t),
		Since:     time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "since"), 0).UTC(),
		Pods:      rapid.IntRange(1, 1000).Draw(t, "pods"),
		OnRotate:  rapid.SampledFrom([]api.OnRotate{api.OnRotateReload, api.OnRotateRestart, api.OnRotateNone}).Draw(t, "onRotate"),
	}
	if rapid.Bool().Draw(t, "held") {
		w.Held = &api.RestartHold{Reason: "Paused", Message: rapid.String().Draw(t, "message"), Passes: rapid.Bool().Draw(t, "passes")}
	}
	return w
}

func TestServingStatusReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, err := api.NewServingStatus(rapid.SliceOfN(rapid.Custom(drawStale), 0, 60).Draw(t, "stale"))
		require.NoError(t, err)
		assert.False(t, want.Partial())
		data, err := want.Data()
		require.NoError(t, err)
		got, err := api.ParseServingStatus(data)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestServingStatusDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stale := rapid.SliceOfNDistinct(rapid.Custom(drawStale), 0, 20, func(w api.StaleWorkload) string { return w.Namespace + "/" + w.Kind + "/" + w.Name }).Draw(t, "stale")
		want, err := api.NewServingStatus(stale)
		require.NoError(t, err)
		got, err := api.NewServingStatus(rapid.Permutation(stale).Draw(t, "in another order"))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestServingStatusIsPartialBeyondWhatAConfigMapHolds(t *testing.T) {
	var stale []api.StaleWorkload
	for i := range 8000 {
		stale = append(stale, api.StaleWorkload{Namespace: "shop", Kind: "Deployment", Name: fmt.Sprintf("w%06d", i), Secret: "web-tls", Leaf: someLeaf, Pods: 1, OnRotate: api.OnRotateReload})
	}
	s, err := api.NewServingStatus(stale)
	require.NoError(t, err)
	assert.True(t, s.Partial())
	assert.Equal(t, 8000, s.Count)
	data, err := s.Data()
	require.NoError(t, err)
	total := 0
	for k, v := range data {
		total += len(k) + len(v)
	}
	assert.Less(t, total, 1<<20)
	assert.Greater(t, total, 800<<10, "as many as there is room for")
	got, err := api.ParseServingStatus(data)
	require.NoError(t, err)
	assert.Equal(t, s, got)
}

func TestServingStatusThatCannotBeRead(t *testing.T) {
	for _, tt := range []struct{ stale, count, want string }{
		{"", "", `stale-count: "": must be a number that is not negative`},
		{"", "-1", `stale-count: "-1": must be a number`},
		{"{}\n{\n", "2", "stale: line 2: must be a workload in JSON"},
		{"{}\n{}\n", "1", "stale-count: 1: must be at least the 2 workloads under stale"},
	} {
		_, err := api.ParseServingStatus(map[string]string{"stale": tt.stale, "stale-count": tt.count})
		assert.ErrorContains(t, err, tt.want)
	}
	s, err := api.ParseServingStatus(map[string]string{"stale": "", "stale-count": "0"})
	require.NoError(t, err)
	assert.Empty(t, s.Stale)
}

var someLeaf = strings.Repeat("0a", 32)

func drawLeaf(t *rapid.T) string {
	return rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "leaf")
}
