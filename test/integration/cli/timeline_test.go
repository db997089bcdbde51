package cli

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

var pictures = flag.String("pictures", "", "directory to write the timeline of a real succession to, as text and SVG")

// shownTimeline is the part of -o json that the test looks at.
type shownTimeline struct {
	APIVersion, Kind string
	Lanes            []struct {
		Kind, Name, About string
		Spans             []struct {
			Kind        string
			From, Until time.Time
		}
		Events []struct {
			Kind string
			At   time.Time
		}
	}
	Missing []string
}

func (s shownTimeline) kinds(lane int) (spans, events []string) {
	for _, span := range s.Lanes[lane].Spans {
		spans = append(spans, span.Kind)
	}
	for _, event := range s.Lanes[lane].Events {
		events = append(events, event.Kind)
	}
	return spans, events
}

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
	waitFor(t, func() bool { return len(shown().Lanes) == 4 && shown().Missing == nil }, "a CA and three certificates")
	waitFor(t, func() bool {
		return regexp.MustCompile(`Trust +([1-9]\d*) of (\d+) targets hold the bundle, 0 not yet`).MatchString(cli(t, "status", "--system-namespace", i.namespace, "-n", ns).out)
	}, "a bundle that is held")
	r := cli(t, "rotate-ca", "-n", i.namespace, "--reason", "drill")
	require.Zero(t, r.code, r.out+r.err)

	got := shown("--ca")
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
	require.NoError(t, xml.Unmarshal([]byte(timeline("-o", "svg")), new(struct{})))
	assert.Contains(t, timeline("-o", "html"), "<h2>"+ns+"/web</h2>")
	paint(t, "succession", timeline, "--ca", "--since", "1m", "--until", "20s")
	paint(t, "namespace", timeline)

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
		paint(t, "distrust", timeline, "--ca", "--since", "1m", "--until", "20s")
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

// paint writes a timeline where flag -pictures says, for docs/timeline.md.
func paint(t *testing.T, name string, timeline func(...string) string, args ...string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	for ending, output := range map[string]string{"txt": "text", "svg": "svg", "html": "html"} {
		path := filepath.Join(*pictures, "timeline-"+name+"."+ending)
		require.NoError(t, os.WriteFile(path, []byte(timeline(append(args, "-o", output)...)), 0o600))
	}
}
