package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKubeletStatus(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	states := []KubeletState{{Node: "b", State: "other", Message: "why", Since: since}, {Node: "ok", State: KubeletCurrent, Since: since}, {Node: "a", State: "expired", Since: since}}
	data, err := NewKubeletStatus(states, since.Add(59*time.Minute)).Data()
	require.NoError(t, err)
	read, err := ParseKubeletStatus(data)
	require.NoError(t, err)
	assert.Equal(t, KubeletStatus{Nodes: 3, Count: 2, Kubelets: []KubeletState{states[2], states[0]}, Reported: since}, read)
	assert.False(t, read.Stale(since.Add(3*time.Hour)), "one report may be late")
	assert.True(t, read.Stale(since.Add(3*time.Hour+time.Second)))

	var many []KubeletState
	for i := range 5000 {
		many = append(many, KubeletState{Node: fmt.Sprintf("node-%d", i), State: "unreachable", Message: strings.Repeat("x", 300), Since: since})
	}
	data, err = NewKubeletStatus(many, since).Data()
	require.NoError(t, err)
	assert.Less(t, len(data[kubeletsKey]), 1<<20)
	read, err = ParseKubeletStatus(data)
	require.NoError(t, err)
	assert.Equal(t, 5000, read.Count)
	assert.Less(t, len(read.Kubelets), 5000)

	for _, c := range []struct {
		data map[string]string
		want string
	}{
		{nil, `nodes: "": must be a number that is not negative`},
		{map[string]string{"nodes": "3"}, `kubelets-count: "": must be a number that is not negative`},
		{map[string]string{"nodes": "3", "reported": "now"}, `reported: "now": must be an RFC 3339 time`},
		{map[string]string{"nodes": "3", "kubelets-count": "1", "kubelets": "x"}, "kubelets: line 1: must be a kubelet in JSON"},
		{map[string]string{"nodes": "3", "kubelets-count": "0", "kubelets": "{}\n"}, "kubelets-count: 0: must be at least the 1 kubelets under kubelets"},
	} {
		_, err := ParseKubeletStatus(c.data)
		assert.ErrorContains(t, err, c.want)
	}
}
