package serving

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// After the TLS port and the annotation are taken back, as in step 3 of docs/tls-beside-plaintext.md, the Secret is kept,
// and the pods still mount it. That they serve plaintext, as before, is no failure. Whatever still serves the
// certificate is followed.
func TestAServiceThatNoLongerAsks(t *testing.T) {
	late := 3 * time.Minute
	takenBack := func(ports ...any) *corev1.Service {
		svc := offers("web", ports...)
		delete(svc.Annotations, api.AnnotationSecretName)
		svc.Status.Conditions[0].Reason = api.ReasonRetained
		before := rotatortest.Serves(offers("web", "http", 8080, "https", 8443), rotatortest.Leaf(2), rotatortest.Noon)
		svc.Status.Conditions = append(svc.Status.Conditions, before.Status.Conditions[len(svc.Status.Conditions):]...)
		return svc
	}
	plaintext := takenBack("http", 8080)
	answers := func(a probe.Answer) []consumer { return []consumer{asked(readyPod("a", "web"), atPort(8080, a))} }
	plain := probe.Answer{Kind: probe.Plaintext, At: rotatortest.Noon.Add(late)}
	const removed, stays = "removed", "stays"
	for name, tt := range map[string]struct {
		svc    *corev1.Service
		pods   []consumer
		reason string
		state  State
	}{
		"plaintext":                       {plaintext, answers(plain), removed, stateNoPort},
		"the program's own certificate":   {plaintext, answers(showed(rotatortest.Leaf(9), late)), removed, stateNoPort},
		"no answer":                       {plaintext, answers(noAnswerFor(time.Minute, late)), removed, stateNoPort},
		"no pod":                          {plaintext, nil, removed, ""},
		"not dialled yet":                 {plaintext, []consumer{asked(readyPod("a", "web"))}, stays, statePending},
		"a program with the certificate":  {plaintext, answers(showed(rotatortest.Leaf(2), late)), api.ServingCurrent, stateCurrent},
		"one with an older certificate":   {plaintext, answers(showed(rotatortest.Leaf(1), late)), api.ServingStale, stateStale},
		"the TLS port is still there":     {takenBack("https", 8080), answers(plain), api.ServingPlaintext, statePlaintext},
		"the annotation is still there":   {offers("web", "http", 8080), answers(plain), api.ServingPlaintext, statePlaintext},
		"the port of a proxy, and no pod": {takenBack("x", "sc-tls-8080"), nil, api.ServingNoConsumers, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := inProtocol(lookAt(late, tt.svc, tt.pods...)).Decide()
			if tt.state == "" {
				assert.Empty(t, d.States)
			} else {
				assert.Equal(t, map[State]int{tt.state: 1}, d.States)
			}
			if tt.reason == stays {
				assert.Empty(t, d.Conditions)
				return
			}
			require.Len(t, d.Conditions, 1)
			if got := d.Conditions[0].Want; tt.reason == removed {
				assert.Nil(t, got)
			} else {
				assert.Equal(t, tt.reason, got.Reason)
			}
		})
	}
	d := inProtocol(lookAt(late, plaintext, answers(plain)...)).Decide()
	require.Len(t, d.Conditions, 1)
	plaintext.Status.Conditions = plaintext.Status.Conditions[:2]
	assert.Empty(t, inProtocol(lookAt(late, plaintext, answers(plain)...)).Decide().Conditions, "it has none any more")

	other := offers("api", "http", 8080) // which asks for the same Secret
	s := lookAt(late, plaintext, answers(plain)...)
	s.Services = append(s.Services, other)
	d = inProtocol(s).Decide()
	assert.Equal(t, map[State]int{statePlaintext: 1}, d.States)
	reason, _ := saidOf(t, d, "api")
	assert.Equal(t, api.ServingPlaintext, reason)
}
