package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
