package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func withFlags(message string) *corev1.Service {
	return &corev1.Service{Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: ConditionFlags, Message: message}}}}
}

func TestAttemptOfTellsItsParts(t *testing.T) {
	a := AttemptOf("example.com/web", "web", []string{"a", "b"}, []string{"c"})
	assert.Regexp(t, "^[0-9a-f]{16}$", a)
	assert.Equal(t, a, AttemptOf("example.com/web", "web", []string{"a", "b"}, []string{"c"}))
	for _, other := range []string{
		AttemptOf("example.com/we", "bweb", []string{"a", "b"}, []string{"c"}),
		AttemptOf("example.com/web", "web", []string{"ab"}, []string{"c"}),
		AttemptOf("example.com/web", "web", []string{"a"}, []string{"b", "c"}),
		AttemptOf("example.com/web", "web", []string{"a", "b"}, nil),
	} {
		assert.NotEqual(t, a, other)
	}
}

func TestFlagsFactsReadBack(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	attempt := AttemptOf("web", "x", nil, nil)
	facts := FlagsFacts{
		{attempt, VerdictWithheld, "Deployment/web", "app", at, true},
		{strings.Repeat("0a", 8), VerdictCleared, "StatefulSet/db", "pg", at.Add(time.Hour), false},
		{strings.Repeat("0b", 8), VerdictSuspected, "Pod/x", "c", at, false},
	}
	message := facts.Message("said (so)")
	assert.Equal(t, "said (so) (withheld "+attempt+" Deployment/web/app since 2026-05-01T12:00:00Z on trial, "+
		"cleared 0a0a0a0a0a0a0a0a StatefulSet/db/pg since 2026-05-01T13:00:00Z, suspected 0b0b0b0b0b0b0b0b Pod/x/c since 2026-05-01T12:00:00Z)", message)
	got := FlagsOf(withFlags(message))
	assert.Equal(t, facts, got)
	assert.True(t, got.Withholds(attempt))
	assert.False(t, got.Withholds(strings.Repeat("0a", 8)))
	assert.False(t, got.Withholds(strings.Repeat("0b", 8)))
	assert.Empty(t, got.Established(), "on trial, or not withheld")
	facts[0].OnTrial = false
	assert.Equal(t, facts[:1], facts.Established())
	assert.Empty(t, FlagsOf(&corev1.Service{}))
}

func TestWhatIsNoFactIsPassedOver(t *testing.T) {
	for _, fact := range []string{
		"", "withheld", "withheld 0a Deployment/web/app since 2026-05-01T12:00:00Z", "kept 0a0a0a0a0a0a0a0a Deployment/web/app since 2026-05-01T12:00:00Z",
		"withheld 0A0A0A0A0A0A0A0A Deployment/web/app since 2026-05-01T12:00:00Z", "withheld 0a0a0a0a0a0a0a0a web since 2026-05-01T12:00:00Z",
		"withheld 0a0a0a0a0a0a0a0a Deployment/web/app since noon", "withheld 0a0a0a0a0a0a0a0a Deployment/web/app",
	} {
		assert.Empty(t, FlagsOf(withFlags("said ("+fact+")")), fact)
	}
	var many FlagsFacts
	for i := range MaxAttempts + 5 {
		many = append(many, AttemptFact{Attempt: fmt.Sprintf("%016x", i), Verdict: VerdictWithheld, Workload: "Deployment/web", Container: "app"})
	}
	assert.Len(t, FlagsOf(withFlags(many.Message("said"))), MaxAttempts)
}

func TestContainerAttempts(t *testing.T) {
	a, b := strings.Repeat("0a", 8), strings.Repeat("0b", 8)
	got := InjectionStatus{
		Attempts: map[string]string{"web": a, "bad name": a, "proxy": b, "short": "0a", "script": "<script>"},
		Withheld: map[string]string{"app": a, strings.Repeat("x", 64): a},
	}.ContainerAttempts()
	assert.Equal(t, []ContainerAttempt{{"proxy", b, false}, {"web", a, false}, {"app", a, true}}, got)

	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprint("c", i)] = a
	}
	assert.Len(t, InjectionStatus{Attempts: many, Withheld: many}.ContainerAttempts(), maxContainerAttempts)
	assert.Empty(t, InjectionStatus{}.ContainerAttempts())
}
