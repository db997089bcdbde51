package correct

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/bounded"
)

// longNames returns names as long as the API server takes them: n, each of size bytes.
func longNames(n, size int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strings.Repeat("a", size-1) + string(rune('a'+i%26))
	}
	return names
}

// TestHostileWordsCostLittle: names are looked for in a message at a cost of the size of both.
func TestHostileWordsCostLittle(t *testing.T) {
	names, message := longNames(1000, 100), strings.Repeat("-a", 1024)
	assert.Less(t, bounded.Allocated(func() { evidenceOf(message, names) }), uint64(4*1000*100*bounded.RaceFactor))
}

// TestWhatIsNoNameIsNotLookedFor: no program has such a flag or variable, whatever a pod says.
func TestWhatIsNoNameIsNotLookedFor(t *testing.T) {
	for _, name := range []string{"\xff\xfe", "tls\xff", "a(b", "a b", "", "-", "é", "a\x00b", strings.Repeat("a", 101)} {
		evidence, line := evidenceOf("no such thing: -"+name+"\n", []string{name})
		assert.Equal(t, EvidenceOther, evidence, "%q", name)
		assert.Empty(t, line)
	}
}

// TestPodsOfANamespaceThatIsNotOptedInSayNothing: the webhook did not give them anything.
func TestPodsOfANamespaceThatIsNotOptedInSayNothing(t *testing.T) {
	s := Situation{Now: noon, Enabled: true, Services: []Service{service("web")}, Pods: []*pods.Facts{
		pod("web-1", "web", status(false), crashes(unknownFlag)), pod("bare", "", status(false), crashes(unknownFlag)),
	}}
	require.Len(t, Decide(s).Changes, 1)
	s.NotOptedIn = true
	assert.Equal(t, Decision{Memory: Memory{}}, Decide(s))

	s.Services = []Service{service("web", fact(state.VerdictWithheld, time.Minute, false))}
	d := Decide(s)
	assert.Empty(t, d.Changes, "nothing is taken back")
	assert.Empty(t, d.Delete)
	assert.Equal(t, 1, d.Withheld)
}

// TestWordsAreReadOnce: a look at a namespace reads what changed since the look before.
func TestWordsAreReadOnce(t *testing.T) {
	s := Situation{Now: noon, Enabled: true, Services: []Service{service("web")}, Pods: []*pods.Facts{pod("web-1", "web", status(false), crashes(unknownFlag))}}
	d := Decide(s)
	require.Len(t, d.Readings, 1)
	s.Readings = Readings{}
	for words, r := range d.Readings {
		assert.Equal(t, Reading{EvidenceNamed, "unknown flag: --tls-cert-file"}, r)
		s.Readings[words] = Reading{EvidenceNamed, "as it was read before"}
	}
	assert.Equal(t, "as it was read before", Decide(s).Changes[0].Findings[0].Line)

	s.Pods[0] = pod("web-1", "web", status(false), crashes(usageText))
	again := Decide(s)
	assert.Equal(t, EvidenceUsage, again.Changes[0].Findings[0].Evidence)
	assert.Len(t, again.Readings, 1, "the others are forgotten")
}

// TestPropertyOfWords: lines are compared with names as these patterns would.
func TestPropertyOfWords(t *testing.T) {
	pattern := func(name, after string) *regexp.Regexp {
		quoted := regexp.MustCompile(`[-_]`).ReplaceAllString(regexp.QuoteMeta(name), `[-_]`)
		if !strings.ContainsAny(name, "-_.") {
			quoted = "-" + quoted
		}
		return regexp.MustCompile(`(?i)(^|[^0-9a-z_.])` + quoted + after)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[-_.]{0,1}[a-cA-C0]{1,2}([-_.][a-cA-C0]{1,2})?`).Draw(t, "name")
		parts := rapid.SliceOfN(rapid.OneOf(rapid.Just(name), rapid.Just("--"), rapid.StringMatching(`[-_. =:"'>/a-cA-C0\xff]{0,3}`)), 0, 8).Draw(t, "line")
		line := strings.Join(parts, "")
		named, withPath := wordsOf([]string{name}).in(line)
		assert.Equal(t, pattern(name, `($|[^0-9a-z_-])`).MatchString(line), named, "%q in %q", name, line)
		assert.Equal(t, pattern(name, `[=: "'>]{1,5}/`).MatchString(line), withPath, "%q in %q", name, line)
	})
}
