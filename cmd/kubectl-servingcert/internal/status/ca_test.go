package status

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestProgress(t *testing.T) {
	for want, data := range map[string]map[string]string{
		"no generation signs; problem: CALost: x": {api.CAProblem: "CALost: x"},
		"Stable: generation 3 signs":              {api.CAPhase: api.PhaseStable, api.CAGeneration: "3"},
		"Wait: generation 3 signs, generation 4 is next; 37 of 40 targets hold the new root": {
			api.CAPhase: api.PhaseWait, api.CAGeneration: "3", api.CANextGeneration: "4", api.CAWaitingFor: "37 of 40 targets hold the new root"},
		"Reissue: generation 4 signs, 12 of 40 certificates are signed by it, 28 left": {
			api.CAPhase: api.PhaseReissue, api.CAGeneration: "4", api.CAReplaced: "12", api.CALeaves: "40", api.CAWaitingFor: "the last certificate of generation 3 ends by 2027-02-27"},
		"Retire: generation 4 signs, 40 of 40 certificates are signed by it; the last certificate of generation 3 ends by 2027-02-27": {
			api.CAPhase: api.PhaseRetire, api.CAGeneration: "4", api.CAReplaced: "40", api.CALeaves: "40", api.CAWaitingFor: "the last certificate of generation 3 ends by 2027-02-27"},
	} {
		assert.Equal(t, want, ParseCA(data).Progress())
	}
}

func TestIncompleteStatusesAreParsed(t *testing.T) {
	assert.Equal(t, CA{}, ParseCA(nil))
	assert.Equal(t, CA{}, ParseCA(map[string]string{api.CAGeneration: "two", api.CASince: "yesterday", api.CALeaves: "many"}))
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := ParseCA(map[string]string{api.CASince: "2026-03-01T12:00:00Z", api.CAReplaced: "0", api.CAWarning: "A: b\nC: d"})
	assert.Equal(t, &since, s.Since)
	require.NotNil(t, s.Replaced, "none is a count")
	assert.Equal(t, []string{"A: b", "C: d"}, s.Warnings)
	assert.Equal(t, Trust{BundleHash: "aa", Targets: 3, Holding: 1, Pending: 1, Refusing: 1, NotHolding: []string{"x", "y"},
		Since: &since, Late: 1, Grace: 1, GraceNamespaces: "shop"}, ParseTrust(map[string]string{
		api.TrustBundleHash: "aa", api.TrustTargets: "3", api.TrustHolding: "1", api.TrustPending: "1", api.TrustRefusing: "1", api.TrustNotHolding: "x\ny",
		api.TrustSince: "2026-03-01T12:00:00Z", api.TrustLate: "1", api.TrustGrace: "1", api.TrustNamespaces: "shop"}))
}

func TestOthers(t *testing.T) {
	s := ParseCA(map[string]string{api.CAGeneration: "3", api.CAGenerations: strings.Join([]string{
		`{"number":1,"origin":"own","root":"` + strings.Repeat("a", 64) + `","madeAt":"2026-01-01T00:00:00Z","signsSince":"2026-01-01T00:00:00Z","usedUntil":"2026-02-01T00:00:00Z","retired":true,"retiredAt":"2026-02-02T00:00:00Z"}`,
		`{"number":2,"origin":"own","root":"` + strings.Repeat("b", 64) + `","madeAt":"2026-02-01T00:00:00Z","signsSince":"2026-02-02T00:00:00Z","usedUntil":"2026-04-01T00:00:00Z"}`,
		`{"number":3,"origin":"own","root":"` + strings.Repeat("c", 64) + `","madeAt":"2026-03-01T00:00:00Z","signsSince":"2026-03-02T00:00:00Z"}`,
		`{"number":4,"origin":"own","root":"` + strings.Repeat("d", 64) + `","madeAt":"2026-03-03T00:00:00Z","trustedAt":"2026-03-04T00:00:00Z"}`,
		`{"number":5,"origin":"own","why":"\u001b","root":"` + strings.Repeat("e", 64) + `","madeAt":"2026-03-05T00:00:00Z"}`,
	}, "\n")})
	assert.Equal(t, []string{
		"generation 2 signed until 2026-03-02T00:00:00Z; its last certificates expire by 2026-04-01T00:00:00Z, and its root stays in the bundle at least until then",
		"generation 4 has been held by every target since 2026-03-04T00:00:00Z, and signs next",
		"generation 5 has been published since 2026-03-05T00:00:00Z, and does not sign before every target holds its root",
	}, s.Others())
	require.Len(t, s.Generations, 5)
	assert.NotContains(t, s.Generations[4].Why, "\x1b")
	assert.Empty(t, ParseCA(nil).Others())
}
