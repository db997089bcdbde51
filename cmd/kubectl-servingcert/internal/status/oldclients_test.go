package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

// Pods count that mount the bundle, started before a root was distributed, and are not annotated as reloading.
func TestCountOldClients(t *testing.T) {
	ca := api.CAStatus{Generations: []api.CAGenerationRecord{
		{Number: 1, Root: strings.Repeat("a", 64), TrustedAt: noon.Add(-100 * time.Hour)},
		{Number: 2, Root: strings.Repeat("b", 64), TrustedAt: noon.Add(-10 * time.Hour), SignsSince: noon.Add(-9 * time.Hour)},
		{Number: 3, Root: strings.Repeat("c", 64), TrustedAt: noon},
	}}
	since := noon.Add(-10*time.Hour + api.KubeletUpdatesByName)
	client := func(name string, started time.Time) Consumer {
		return Consumer{Namespace: "shop", Kind: "Deployment", Name: name, Bundle: true, Started: noon, BundleStarted: started}
	}
	reloads, server := client("reloads", since.Add(-time.Second)), client("server", since.Add(-time.Second))
	reloads.Reloads, server.Bundle = true, false
	all := []Consumer{client("old\x1b", since.Add(-time.Second)), client("old\x1b", since.Add(-time.Hour)), client("new", since), client("waits", time.Time{}), reloads, server}
	got := CountOldClients(ca, all, noon)
	require.Len(t, got, 1, "the root of generation 3 may not be distributed yet")
	assert.Equal(t, OldClients{Generation: 2, Since: since, Pods: 2, Workloads: 1, First: []string{`shop Deployment/old\u001b`}}, got[0])
	assert.Equal(t, `2 pods of 1 workload may not hold the root of generation 2, because they started before it was distributed: shop Deployment/old\u001b`, got[0].String())
	assert.Len(t, CountOldClients(ca, all, noon.Add(api.KubeletUpdatesByName)), 2)

	assert.True(t, CountsClients(ca, noon))
	ca.Generations[1].Retired = true
	assert.False(t, CountsClients(ca, noon))

	var many []Consumer
	for i := range maxOldClients + 1 {
		many = append(many, client(fmt.Sprint("c", i), since.Add(-time.Second)))
	}
	ca.Generations[1].Retired = false
	assert.Contains(t, CountOldClients(ca, many, noon)[0].String(), ", …")
}

// A generation that signed before its root was distributed counts from then on.
func TestDistributed(t *testing.T) {
	for what, c := range map[string]struct {
		record api.CAGenerationRecord
		want   time.Time
	}{
		"not trusted":           {},
		"trusted":               {api.CAGenerationRecord{TrustedAt: noon}, noon.Add(api.KubeletUpdatesByName)},
		"a soak that is short":  {api.CAGenerationRecord{TrustedAt: noon, SignsSince: noon.Add(time.Minute)}, noon.Add(time.Minute)},
		"no time to wait for":   {api.CAGenerationRecord{SignsSince: noon}, noon.Add(api.KubeletUpdatesByName)},
		"a soak that is longer": {api.CAGenerationRecord{TrustedAt: noon, SignsSince: noon.Add(time.Hour)}, noon.Add(api.KubeletUpdatesByName)},
	} {
		assert.Equal(t, c.want, distributed(c.record), what)
	}
}
