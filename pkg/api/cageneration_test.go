package api

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func drawGenerations(t *rapid.T) []CAGenerationRecord {
	var records []CAGenerationRecord
	for i := range rapid.IntRange(0, 3).Draw(t, "generations") {
		r := CAGenerationRecord{
			Number: i + 1, Origin: rapid.SampledFrom([]string{OriginOwn, OriginImported, OriginRemote}).Draw(t, "origin"),
			Root: strings.Repeat("0f", 32), Why: rapid.StringN(0, 40, -1).Draw(t, "why"), Retired: rapid.Bool().Draw(t, "retired"),
		}
		for _, moment := range r.times() {
			if rapid.Bool().Draw(t, "known") {
				*moment = time.Unix(rapid.Int64Range(0, 1e10).Draw(t, "moment"), 0).UTC()
			}
		}
		records = append(records, r)
	}
	return records
}

// Other versions of the signer and the CLI read these.
func TestALineOfTheHistory(t *testing.T) {
	noon := time.Date(2026, 3, 1, 13, 0, 0, 5, time.FixedZone("CET", 3600))
	root := strings.Repeat("ab", 32)
	history := NewCAGenerations([]CAGenerationRecord{
		{Number: 1, Origin: OriginImported, Root: root, Why: "the first CA, imported", MadeAt: noon, Retired: true},
		{Number: 2, Origin: OriginOwn, Root: root, TrustedAt: noon, SignsSince: noon, UsedUntil: noon, NotAfter: noon, RetiredAt: noon},
	})
	text := CAStatus{Generations: history}.Data()["generations"]
	assert.Equal(t, strings.Join([]string{
		`{"number":1,"origin":"imported","root":"` + root + `","why":"the first CA, imported","madeAt":"2026-03-01T12:00:00Z","retired":true}`,
		`{"number":2,"origin":"own","root":"` + root + `","trustedAt":"2026-03-01T12:00:00Z","signsSince":"2026-03-01T12:00:00Z",` +
			`"usedUntil":"2026-03-01T12:00:00Z","notAfter":"2026-03-01T12:00:00Z","retiredAt":"2026-03-01T12:00:00Z"}`,
	}, "\n"), text)
	assert.Equal(t, history, parseGenerations(text))
}

// Anyone who may write ConfigMaps may have written the history, and so may a newer
// version.
func TestAHistoryThatSomebodyWrote(t *testing.T) {
	good := `{"number":3,"origin":"own","root":"` + strings.Repeat("ab", 32) + `"`
	for name, line := range map[string]string{
		"empty": "", "not JSON": "generation 3", "a list": "[]",
		"no number": `{"origin":"own"}`, "a number too high": strings.Replace(good, "3", "1000001", 1) + "}",
		"an origin that is unknown": strings.Replace(good, "own", "stolen", 1) + "}",
		"a root that is none":       strings.Replace(good, "ab", "zz", 1) + "}",
		"a time that is none":       good + `,"madeAt":"yesterday"}`,
	} {
		assert.Empty(t, parseGenerations(line), name)
		assert.Len(t, parseGenerations(line+"\n"+good+"}"), 1, "%s: the other line is read", name)
	}
	assert.Len(t, parseGenerations(good+`,"color":"blue"}`), 1, "a field of a newer version")
	long := parseGenerations(good + `,"why":"` + strings.Repeat("ü", 1000) + `"}`)[0].Why
	assert.Equal(t, strings.Repeat("ü", maxGenerationText)+"…", long)

	var many []string
	for n := 1; n <= 100; n++ {
		many = append(many, strings.Replace(good, "3", strconv.Itoa(n), 1)+"}")
	}
	kept := parseGenerations(strings.Join(many, "\n"))
	assert.Len(t, kept, MaxCAGenerations)
	assert.Equal(t, 100, kept[len(kept)-1].Number, "the newest are kept")
}
