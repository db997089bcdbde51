//go:build long

package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// The timeline shows a succession that took place, and what the CA Secret has forgotten.
func TestTimelineOfASuccession(t *testing.T) {
	i := install(t)
	ns := newNamespace(t, "shop", map[string]string{api.LabelInject: api.InjectEnabled})
	for _, name := range []string{"web", "api", "db"} {
		makeService(t, ns, name)
	}
	timeline := func(args ...string) string {
		t.Helper()
		r := cli(t, append([]string{"timeline", "--system-namespace", i.namespace, "-n", ns}, args...)...)
		require.Zero(t, r.code, r.err)
		return r.out
	}
	shown := func(args ...string) shownTimeline {
		t.Helper()
		var got shownTimeline
		require.NoError(t, json.Unmarshal([]byte(timeline(append(args, "-o", "json")...)), &got))
		return got
	}
	waitFor(t, func() bool {
		r := cli(t, "status", "--system-namespace", i.namespace, "-n", ns)
		return r.code == 0 && strings.Count(r.out, "  True   Issued") == 3 && regexp.MustCompile(`Trust +([1-9]\d*) of (\d+) targets hold the bundle, 0 not yet`).MatchString(r.out)
	}, "three certificates and a bundle that is held")
	got := shown()
	require.Len(t, got.Lanes, 4, "a generation and three Services")
	assert.Empty(t, got.Missing)
	r := cli(t, "rotate-ca", "-n", i.namespace, "--reason", "drill")
	require.Zero(t, r.code, r.out+r.err)

	got = shown("--ca")
	assert.Equal(t, []string{"cli.servingcert.dev/v1", "Timeline"}, []string{got.APIVersion, got.Kind})
	require.Len(t, got.Lanes, 2)
	spans, events := got.kinds(0)
	assert.Equal(t, []string{"signs", "used"}, spans)
	assert.Equal(t, []string{"prepared", "signs", "usedUntil", "expires"}, events)
	spans, events = got.kinds(1)
	assert.Subset(t, spans, []string{"trusted", "maySign"}, "it was trusted for a while before it signed")
	assert.Equal(t, []string{"prepared", "trusted", "signs", "expires"}, events)
	assert.Equal(t, got.Lanes[1].Spans[len(got.Lanes[1].Spans)-1].Until, got.Lanes[1].Events[3].At)
	assert.Contains(t, got.Lanes[1].About, "asked for: drill")

	got = shown("web")
	require.Len(t, got.Lanes, 3)
	spans, events = got.kinds(2)
	assert.Equal(t, []string{"valid", "renewalDue"}, spans)
	assert.Equal(t, "validFrom", events[0])
	assert.Equal(t, "expires", events[len(events)-1])
	assert.Equal(t, "certificate", timeline("-o", "jsonpath={.lanes[2].kind}"))
	here := []string{"--system-namespace", i.namespace, "-n", ns}
	paint(t, "succession", append(here, "timeline", "--ca", "--since", "20s", "--until", "10s")...)
	paint(t, "namespace", append(here, "timeline")...)
	paint(t, "status", append(here, "status")...)

	t.Run("a generation that the CA Secret has forgotten", func(t *testing.T) {
		r := cli(t, "rotate-ca", "-n", i.namespace, "--reason", "stolen", "--distrust-now", "--yes")
		require.Zero(t, r.code, r.out+r.err)
		got := shown("--ca")
		require.Len(t, got.Lanes, 3)
		for lane := range 2 {
			_, events := got.kinds(lane)
			assert.Contains(t, events, "retired", got.Lanes[lane].Name)
			assert.NotContains(t, events, "expires", got.Lanes[lane].Name)
		}
		_, events := got.kinds(2)
		assert.Equal(t, []string{"prepared", "signs", "expires"}, events)
		paint(t, "distrust", append(here, "timeline", "--ca", "--since", "30s", "--until", "10s")...)
	})
	t.Run("a user who may read little", func(t *testing.T) {
		user := user(t, "poor-"+ns)
		permit(t, ns, "poor-"+ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}})
		r := cliAs(t, user, "timeline", "--system-namespace", i.namespace, "-n", ns)
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "Not shown: the generations of the CA: you may not read ConfigMap servingcert-ca-status\n")
		assert.Contains(t, r.out, "Not shown: when certificates were issued and end")
		r = cliAs(t, user, "timeline", "--system-namespace", i.namespace, "--ca")
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.err, "forbidden")
	})
}
