package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/kubelets"
)

func TestLedger(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := newLedger()
	issued := &kubelets.Issued{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}, Node: "a", Leaf: "1234"}
	assert.True(t, l.issued(issued, noon))
	assert.False(t, l.issued(issued, noon.Add(time.Hour)), "it is known")
	assert.Equal(t, noon, l.givenTo("a").Seen)
	assert.Zero(t, l.givenTo("b"))

	assert.True(t, l.record(api.KubeletState{Node: "a", State: "other", Message: "1", Since: noon}))
	assert.False(t, l.record(api.KubeletState{Node: "a", State: "other", Message: "1", Since: noon.Add(time.Hour)}), "nothing is new")
	assert.True(t, l.record(api.KubeletState{Node: "a", State: "other", Message: "2", Since: noon.Add(time.Hour)}))
	assert.True(t, l.record(api.KubeletState{Node: "b", State: api.KubeletCurrent, Since: noon}))
	assert.ElementsMatch(t, []api.KubeletState{{Node: "a", State: "other", Message: "2", Since: noon}, {Node: "b", State: api.KubeletCurrent, Since: noon}}, l.all(),
		"a state is as old as its first sight")
	require.NoError(t, testutil.CollectAndCompare(l, strings.NewReader(`# HELP servingcert_kubelets Nodes by what their kubelet serves, with --verify-kubelets: current, other, late, expired, not_issued, wrong_name, unreachable or not_verified.
# TYPE servingcert_kubelets gauge
servingcert_kubelets{state="current"} 1
servingcert_kubelets{state="other"} 1
`)))

	assert.True(t, l.forget("a"))
	assert.False(t, l.forget("a"))
	assert.Zero(t, l.givenTo("a"))
	assert.Len(t, l.all(), 1)
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, ""},
		{Config{Enabled: true, NodeCIDRs: []string{"10.0.0.0/24"}}, ""},
		{Config{Enabled: true}, "--verify-kubelets: requires --node-cidrs"},
		{Config{NodeCIDRs: []string{"10.0.0.1/24"}}, `--node-cidrs: "10.0.0.1/24": has bits set beyond its length: must be 10.0.0.0/24`},
	} {
		if err := c.cfg.Validate(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}
