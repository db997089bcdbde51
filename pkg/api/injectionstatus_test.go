package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestInjectionStatusReadsBack(t *testing.T) {
	text := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		s := InjectionStatus{Secret: text.Draw(t, "secret"), Service: text.Draw(t, "service"), Reason: text.Draw(t, "reason")}
		if containers := rapid.MapOf(text, text).Draw(t, "containers"); len(containers) > 0 {
			s.Containers = containers
		}
		if notes := rapid.SliceOf(text).Draw(t, "notes"); len(notes) > 0 {
			s.Notes = notes
		}
		value := s.Format()
		got, ok := ParseInjectionStatus(value)
		assert.True(t, ok)
		assert.Equal(t, s, got)
		assert.Equal(t, value, got.Format())
	})
}

// TestInjectionStatusOnTheWire: pods that exist carry these bytes.
func TestInjectionStatusOnTheWire(t *testing.T) {
	full := InjectionStatus{
		Secret: "web-tls", Service: "web", Containers: map[string]string{"web": "files,env,flags", "proxy": "files"},
		Reason: "NoArgs", Notes: []string{"NoArgs: a < b"},
	}
	for _, c := range []struct {
		status InjectionStatus
		want   string
	}{
		{InjectionStatus{}, `{}`},
		{full, `{"secret":"web-tls","service":"web","containers":{"proxy":"files","web":"files,env,flags"},"reason":"NoArgs","notes":["NoArgs: a \u003c b"]}`},
	} {
		assert.Equal(t, c.want, c.status.Format())
	}
}

func TestParseInjectionStatusRefuses(t *testing.T) {
	for _, value := range []string{"", "web-tls", "[]", `"x"`, `{"secret":1}`, `{"notes":"x"}`, `{"secret":"web-tls"`} {
		s, ok := ParseInjectionStatus(value)
		assert.False(t, ok, value)
		assert.Zero(t, s, value)
	}
}

func TestInjectionStatusNotInjectedFor(t *testing.T) {
	for value, want := range map[string]string{
		`{}`:                   "",
		`{"secret":"web-tls"}`: "",
		`{"reason":"NotConcerned","notes":["UnknownAnnotation: x"]}`:       "",
		`{"secret":"web-tls","containers":{"web":"files"}}`:                "",
		`{"secret":"web-tls","service":"web","reason":"MountPathTaken"}`:   "web-tls",
		`{"secret":"web-tls","reason":"MountPathTaken","future":{"a":[]}}`: "web-tls",
	} {
		s, ok := ParseInjectionStatus(value)
		assert.True(t, ok, value)
		assert.Equal(t, want, s.NotInjectedFor(), value)
	}
}
