package correct

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// TestWorkloadsWithOneAttempt: of one program, with other arguments.
func TestWorkloadsWithOneAttempt(t *testing.T) {
	of := func(workload string, fact state.Attempt) state.Attempt {
		fact.Workload = "Deployment/" + workload
		return fact
	}
	decide := func(facts state.Flags, pods ...*pods.Facts) (Situation, Decision) {
		s := Situation{Now: noon, Enabled: true, Services: []Service{service("web", facts...)}, Pods: pods}
		return s, Decide(s)
	}
	const withheld, cleared = state.VerdictWithheld, state.VerdictCleared

	s, d := decide(nil, pod("web-1", "web", status(false), crashes("")), pod("api-1", "api", status(false), crashes("")))
	assert.Equal(t, state.Flags{of("api", fact(withheld, 0, true)), of("web", fact(withheld, 0, true))}, factsOf(s, d), "each is on trial")

	both := state.Flags{of("api", fact(withheld, time.Minute, true)), of("web", fact(withheld, time.Minute, true))}
	s, d = decide(both, pod("web-1", "web", status(true), crashes(otherText)), pod("api-1", "api", status(true)))
	assert.Equal(t, state.Flags{both[0], of("web", fact(cleared, 0, false))}, factsOf(s, d), "what one does without it says nothing of the other")
	assert.True(t, factsOf(s, d).Withholds(attempt))

	s, d = decide(state.Flags{of("web", fact(cleared, time.Minute, false))}, pod("api-1", "api", status(false), crashes("")))
	assert.Equal(t, of("api", fact(withheld, 0, true)), factsOf(s, d)[1], "nor does the amnesty of one hold for the other")

	named := state.Flags{of("web", fact(withheld, time.Minute, false))}
	s, d = decide(named, pod("api-1", "api", status(false), crashes("")), pod("db-1", "db", status(true), crashes("")))
	assert.Equal(t, named, factsOf(s, d), "what the program has named holds for all that run it")
	assert.Equal(t, []string{"api-1"}, deleted(d))
	require.Len(t, d.Told, 1)
	assert.Equal(t, "api", d.Told[0].Workload.Name)
	assert.Empty(t, Decide(written(s, d)).Told)
}
