package flags

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
)

const (
	unknownFlag = "starting\nunknown flag: --tls-cert-file\n"
	otherCause  = "dial tcp 10.0.0.1:5432: connect: connection refused\n"
)

func TestFlagsThatAProgramDoesNotKnowAreTakenBack(t *testing.T) {
	registry, stop := startRotator(t)
	p := newPlace(t)
	one, two, other, bare := p.pod("web-1", "web", false), p.pod("web-2", "web", false), p.pod("db-1", "db", false), p.pod("bare", "", false)
	p.crashes(other, otherCause)
	p.crashes(bare, unknownFlag)
	p.crashes(one, unknownFlag)
	p.crashes(two, "")

	facts := p.says(metav1.ConditionFalse, api.FlagsWithheld)
	assert.True(t, facts.Withholds(attempt))
	assert.False(t, facts[0].OnTrial)
	p.gone(one)
	p.gone(two)
	assert.True(t, p.exists(other), "it says another cause")
	assert.True(t, p.exists(bare), "nobody makes it anew")
	for _, about := range [][2]string{{"Service", "web"}, {"Pod", "bare"}} {
		note := p.told(api.FlagsWithheld, about[0], about[1])
		assert.Contains(t, note, `and said "unknown flag: --tls-cert-file"`)
		assert.NotContains(t, note, "starting", "one line is repeated, not the log")
	}
	counts(t, registry, "servingcert_flags_withheld", 1, p.name)
	counts(t, registry, "servingcert_flags_deleted_pods_total", 2, "deleted")

	// The next leader goes on: a webhook that lagged made one more.
	stop()
	late, without := p.pod("web-3", "web", false), p.pod("web-4", "web", true)
	p.serves(without)
	p.crashes(late, unknownFlag)
	before := p.web.ResourceVersion
	registry, _ = startRotator(t)
	p.gone(late)
	counts(t, registry, "servingcert_flags_withheld", 1, p.name)
	assert.True(t, p.exists(without))
	p.says(metav1.ConditionFalse, api.FlagsWithheld)
	assert.Equal(t, before, p.web.ResourceVersion, "the fact is not written again")
}

func TestATrialIsUndone(t *testing.T) {
	registry, _ := startRotator(t)
	p := newPlace(t)
	with := p.pod("web-1", "web", false)
	p.crashes(with, "")
	assert.True(t, p.says(metav1.ConditionFalse, api.FlagsWithheld)[0].OnTrial)
	assert.Contains(t, p.told(api.FlagsWithheld, "Deployment", "web"), "and said nothing")
	p.gone(with)

	p.crashes(p.pod("web-2", "web", true), otherCause)
	facts := p.says(metav1.ConditionTrue, api.FlagsKept)
	assert.False(t, facts.Withholds(attempt))
	p.told(api.FlagsKept, "Deployment", "web")
	counts(t, registry, "servingcert_flags_verdicts_total", 1, "cleared")

	again := p.pod("web-3", "web", false)
	p.crashes(again, "")
	marker := newPlace(t) // judged later
	p2 := marker.pod("web-1", "web", false)
	marker.crashes(p2, unknownFlag)
	marker.gone(p2)
	assert.True(t, p.exists(again), "it is not blamed again so soon")
	p.says(metav1.ConditionTrue, api.FlagsKept)

	require.NoError(t, admin.Patch(t.Context(), p.web, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"servingcert.dev/secret-name":null}}}`))))
	p.saysNothing()
}

// TestPodsOfANamespaceThatIsNotOptedInAreLeftAlone: the webhook did not write what they say.
func TestPodsOfANamespaceThatIsNotOptedInAreLeftAlone(t *testing.T) {
	p := newPlace(t)
	p.optIn("disabled")
	startRotator(t) // which finds the namespace so: pods of one that it does not know yet are looked at as others
	pod := p.pod("web-1", "web", false)
	p.crashes(pod, unknownFlag)
	marker := newPlace(t) // judged later
	judged := marker.pod("web-1", "web", false)
	marker.crashes(judged, unknownFlag)
	marker.gone(judged)
	assert.True(t, p.exists(pod))
	p.saysNothing()

	p.optIn(api.InjectEnabled)
	p.gone(pod)
	p.says(metav1.ConditionFalse, api.FlagsWithheld)
}

func TestFlagsAreOnlyToldOf(t *testing.T) {
	registry, _ := startRotator(t, func(c *rotator.Config) { c.Correct.Enabled = false })
	p := newPlace(t)
	pod := p.pod("web-1", "web", false)
	p.crashes(pod, unknownFlag)
	facts := p.says(metav1.ConditionFalse, api.FlagsSuspected)
	assert.False(t, facts.Withholds(attempt))
	assert.Contains(t, p.told(api.FlagsSuspected, "Deployment", "web"), "nothing is done about it")
	counts(t, registry, "servingcert_flags_verdicts_total", 1, "suspected")
	assert.True(t, p.exists(pod))
}

// TestAProgramThatSaysItLate: with another exit code than most, and after more than 10 s.
func TestAProgramThatSaysItLate(t *testing.T) {
	startRotator(t)
	p := newPlace(t)
	pod := p.pod("web-1", "web", false)
	p.crashes(pod, unknownFlag, func(end *corev1.ContainerStateTerminated) {
		end.ExitCode, end.StartedAt = 255, metav1.NewTime(end.FinishedAt.Add(-40*time.Second))
	})
	assert.False(t, p.says(metav1.ConditionFalse, api.FlagsWithheld)[0].OnTrial)
	p.gone(pod)
}
