package timeline

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

var update = flag.Bool("update", false, "write testdata")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func root(c string) string { return strings.Repeat(c, 64) }

// years is a CA of three generations: the first is retired, the second signs no more,
// and the third signs.
func years() *api.CAStatus {
	return &api.CAStatus{Generation: 3, Generations: []api.CAGenerationRecord{
		{Number: 1, Origin: api.OriginImported, Root: root("a"), Why: "the first CA, imported", MadeAt: noon, SignsSince: noon, UsedUntil: noon.Add(380 * day), NotAfter: noon.Add(700 * day), Retired: true, RetiredAt: noon.Add(400 * day)},
		{Number: 2, Origin: api.OriginOwn, Root: root("b"), Why: "asked for: drill", MadeAt: noon.Add(300 * day), TrustedAt: noon.Add(310 * day), SignsSince: noon.Add(330 * day), UsedUntil: noon.Add(900 * day), NotAfter: noon.Add(1300 * day)},
		{Number: 3, Origin: api.OriginOwn, Root: root("c"), Why: "a third of its life is left", MadeAt: noon.Add(800 * day), TrustedAt: noon.Add(801 * day), SignsSince: noon.Add(802 * day), UsedUntil: noon.Add(920 * day), NotAfter: noon.Add(1800 * day)},
	}}
}

// succession is a CA in the ten minutes of a succession.
func succession() *api.CAStatus {
	return &api.CAStatus{Generation: 1, NextGeneration: 2, Generations: []api.CAGenerationRecord{
		{Number: 1, Origin: api.OriginOwn, Root: root("a"), Why: "the first CA", MadeAt: noon.Add(-90 * day), SignsSince: noon.Add(-90 * day), UsedUntil: noon.Add(91 * day), NotAfter: noon.Add(1000 * day)},
		{Number: 2, Origin: api.OriginOwn, Root: root("b"), Why: "asked for: drill", MadeAt: noon.Add(-5 * time.Minute), TrustedAt: noon.Add(-2 * time.Minute), NotAfter: noon.Add(1095 * day)},
	}}
}

func service(name string, issued time.Time, lifetime time.Duration) judge.Service {
	end, renew := issued.Add(lifetime), issued.Add(lifetime*8/10)
	stored := issued.Add(10 * time.Minute)
	leaf := root("d")
	return judge.Service{
		Namespace: "shop", Name: name, Secret: name + "-tls", Ready: "True", Leaf: leaf, NotBefore: &issued, NotAfter: &end, RenewAt: &renew,
		Serving: &judge.Serving{Status: "True", Reason: "Current", Leaf: leaf, Since: &stored, Changed: issued.Add(5 * day)},
	}
}

func services() []judge.Service {
	stale, unread, pod := service("api", noon.Add(780*day), 30*day), service("secret", noon.Add(780*day), 30*day), service("keyless", noon, day)
	stale.Serving.Status, stale.Serving.Reason = "False", "Stale"
	unread.NotBefore, unread.NotAfter, unread.RenewAt = nil, nil, nil
	pod.NotBefore, pod.NotAfter, pod.RenewAt, pod.Serving, pod.Leaf, pod.PodKeys = nil, nil, nil, nil, "", true
	return []judge.Service{service("web", noon.Add(790*day), 30*day), stale, unread, pod,
		{Namespace: "shop", Name: "broken", Secret: "broken-tls", Ready: "False", Reason: "InvalidAnnotation"}}
}

// scenes are what the golden files in testdata show.
var scenes = map[string]Input{
	"ca":         {Now: noon.Add(810 * day), CA: years()},
	"succession": {Now: noon, CA: succession(), Since: 8 * time.Minute, Until: 8 * time.Minute},
	"namespace":  {Now: noon.Add(810 * day), CA: years(), Services: services()},
	"service":    {Now: noon.Add(810 * day), CA: years(), Services: services()[:1]},
	"forbidden":  {Now: noon.Add(810 * day), Services: services()[2:3]},
	"old-signer": {Now: noon, CA: &api.CAStatus{Generation: 4, NotAfter: noon.Add(300 * day)}},
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "%s: go test ./cmd/kubectl-servingcert/internal/timeline -update", name)
}

func textOf(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

func TestGoldens(t *testing.T) {
	for name, in := range scenes {
		timeline := Build(in)
		golden(t, name+".txt", textOf(timeline.Text(100, false)))
	}
	all := Build(scenes["namespace"])
	golden(t, "namespace.glyphs.txt", textOf(all.Text(100, true)))
	golden(t, "namespace.narrow.txt", textOf(all.Text(60, false)))
	data, err := json.MarshalIndent(Build(scenes["service"]), "", "  ")
	require.NoError(t, err)
	golden(t, "service.json", string(data)+"\n")
}

// drawInput draws a cluster whose clocks and people did anything.
func drawInput(t *rapid.T) Input {
	moment := func(name string) time.Time {
		if rapid.IntRange(0, 3).Draw(t, name+" is known") == 0 {
			return time.Time{}
		}
		return noon.Add(time.Duration(rapid.Int64Range(-4e6, 4e6).Draw(t, name)) * 97 * time.Second)
	}
	in := Input{Now: noon, CA: &api.CAStatus{Generation: rapid.IntRange(0, 3).Draw(t, "signs"), NotAfter: moment("ends")}}
	for i := range rapid.IntRange(0, 4).Draw(t, "generations") {
		in.CA.Generations = append(in.CA.Generations, api.CAGenerationRecord{
			Number: i + 1, Origin: api.OriginOwn, Root: root("a"), Why: rapid.String().Draw(t, "why"),
			MadeAt: moment("made"), TrustedAt: moment("trusted"), SignsSince: moment("signs"), UsedUntil: moment("used"), NotAfter: moment("ends"),
			Retired: rapid.Bool().Draw(t, "retired"), RetiredAt: moment("retired"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "services") {
		s := service(rapid.StringMatching(`[a-z]{1,63}`).Draw(t, "name"), noon.Add(time.Duration(rapid.Int64Range(-1e6, 1e6).Draw(t, "issued"))*time.Second), time.Duration(rapid.Int64Range(1, 1e7).Draw(t, "lifetime"))*time.Second)
		in.Services = append(in.Services, s)
	}
	in.Since = time.Duration(rapid.Int64Range(0, 1e17).Draw(t, "since"))
	in.Until = time.Duration(rapid.Int64Range(0, 1e17).Draw(t, "until"))
	return in
}

func TestWhateverTheClusterSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		timeline := Build(in)
		require.True(t, timeline.Until.After(timeline.From))
		for _, l := range timeline.Lanes {
			require.True(t, slices.IsSortedFunc(l.Marks, func(a, b Mark) int { return a.At.Compare(b.At) }), l.Name)
			for _, s := range l.Spans {
				require.True(t, s.Until.After(s.From), "%s: %v", l.Name, s)
			}
		}
		columns := rapid.IntRange(0, 300).Draw(t, "columns")
		glyphs := rapid.Bool().Draw(t, "glyphs")
		lines := timeline.Text(columns, glyphs)
		for i, line := range lines {
			text := line.String()
			require.Equal(t, text, strings.TrimRight(text, " "))
			if i < 2+len(timeline.Lanes) {
				require.LessOrEqual(t, utf8.RuneCountInString(text), min(max(columns, minWidth), maxWidth), text)
			}
			require.NotContains(t, text, "\n")
		}
	})
}

// Without glyphs every character is ASCII, unless people wrote others.
func TestPlainTextIsASCII(t *testing.T) {
	for name, in := range scenes {
		for _, line := range Build(in).Text(80, false) {
			for _, r := range line.String() {
				assert.Less(t, r, rune(0x80), "%s: %s", name, line)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		name   string
		length time.Duration
		most   int
		want   string
	}{
		{"seconds", 20 * time.Second, 5, "12:00:00 12:00:05 12:00:10 12:00:15 12:00:20"},
		{"minutes", 16 * time.Minute, 4, "03-01 12:00 03-01 12:05 03-01 12:10 03-01 12:15"},
		{"days", 3 * day, 6, "2026-03-02 2026-03-03 2026-03-04"},
		{"weeks begin on Monday", 40 * day, 6, "2026-03-02 2026-03-09 2026-03-16 2026-03-23 2026-03-30 2026-04-06"},
		{"months", 200 * day, 8, "2026-04 2026-05 2026-06 2026-07 2026-08 2026-09"},
		{"years", 1800 * day, 6, "2027 2028 2029 2030 2031"},
	} {
		var labels []string
		for _, tick := range ticks(noon, noon.Add(c.length), c.most) {
			labels = append(labels, tick.label)
		}
		assert.Equal(t, c.want, strings.Join(labels, " "), c.name)
	}
}
