package serving

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// refused returns the Service with a condition Ready that is False since noon, and what was seen before.
func refused(name, reason string, said state.Ready) *corev1.Service {
	svc := rotatortest.Serves(rotatortest.Asking(name, map[string]string{"app": "web"}, 8443), rotatortest.Leaf(2), rotatortest.Noon)
	c := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "said", LastTransitionTime: metav1.NewTime(rotatortest.Noon)}
	svc.Status.Conditions = append(svc.Status.Conditions, state.Say(c, said).Both()...)
	return svc
}

// While Ready names no leaf, what was seen before proves nothing: the Secret may be gone.
func TestServingIsUnknownWithoutALeaf(t *testing.T) {
	leaf := rotatortest.Leaf(2)
	external, managed := state.Ready{Secret: "web-tls", External: true}, state.Ready{}
	for _, tt := range []struct {
		reason  string
		said    state.Ready
		after   time.Duration
		unknown bool
	}{
		{"SecretMissing", external, 0, true},
		{"KeyMismatch", external, time.Hour, true},
		{"NamesMissing", state.Ready{Secret: "web-tls", External: true, Leaf: leaf}, time.Hour, false},
		{"Expired", state.Ready{Secret: "web-tls", External: true, Leaf: leaf}, time.Hour, false},
		{"InvalidAnnotation", managed, 30 * time.Second, true},
		{"InvalidAnnotation", state.Ready{Secret: "web-tls"}, 30 * time.Second, true},
		{"InvalidAnnotation", state.Ready{Secret: "web-tls", Leaf: leaf}, time.Hour, false}, // it is kept
		{"SigningFailed", managed, 29 * time.Second, false},                                 // the signer may repair it
		{"SigningFailed", managed, 30 * time.Second, true},
		{"RateLimited", managed, 30 * time.Second, true},
		{api.ReasonTerminating, state.Ready{Secret: "web-tls"}, time.Hour, false}, // it is not written
		{api.ReasonClockSkew, managed, time.Hour, false},                          // so it may not have expired
	} {
		t.Run(tt.reason, func(t *testing.T) {
			d := lookAt(tt.after, refused("web", tt.reason, tt.said), asked(readyPod("a", "web"), showed(leaf, 0))).Decide()
			assert.Equal(t, map[State]int{stateCurrent: 1}, d.States, "what was seen stays known")
			assert.Empty(t, d.Stale)
			require.Len(t, d.Conditions, 1)
			got := d.Conditions[0].Want
			if !tt.unknown {
				assert.Equal(t, "True Current", string(got.Status)+" "+got.Reason)
				return
			}
			assert.Equal(t, "Unknown NotVerified", string(got.Status)+" "+got.Reason)
			assert.Equal(t, `cannot tell whether the certificate in Secret "web-tls" is served: condition servingcert.dev/Ready is False, `+tt.reason+", and names no certificate", got.Message)
			seen, ok := state.ServingOf(&corev1.Service{Status: corev1.ServiceStatus{Conditions: got.Both()}})
			assert.True(t, ok && seen.Leaf == leaf && seen.Since.Equal(rotatortest.Noon), "a new leader finds what was known")
		})
	}
	d := lookAt(10*time.Second, refused("web", "SigningFailed", managed), asked(readyPod("a", "web"), showed(leaf, 0))).Decide()
	assert.LessOrEqual(t, d.After, 20*time.Second, "it is decided again when it counts")
}

// It turns True by itself, and a new certificate is followed as without the interruption.
func TestServingAfterItWasUnknown(t *testing.T) {
	external := state.Ready{Secret: "web-tls", External: true}
	s := lookAt(time.Minute, refused("web", "SecretMissing", external), asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), 0)))
	d := s.Decide()
	require.Len(t, d.Conditions, 1)
	for leaf, reason := range map[int]string{2: api.ServingCurrent, 3: api.ServingPropagating} {
		after := s
		after.KeyState, after.Now = d.KeyState, s.Now.Add(time.Minute)
		after.KeyState.TakeAnswers(s.KeyState)
		svc := rotatortest.Ready("web", rotatortest.Leaf(leaf))
		svc.Status.Conditions = append(svc.Status.Conditions, d.Conditions[0].Want.Both()...)
		after.Services = []*corev1.Service{svc}
		healed := after.Decide()
		require.Len(t, healed.Conditions, 1)
		assert.Equal(t, reason, healed.Conditions[0].Want.Reason)
	}
}

// What is about pods alone is known whatever the Secret holds.
func TestWhatServingSaysOfABrokenSecret(t *testing.T) {
	svc := refused("web", "SecretMissing", state.Ready{Secret: "web-tls", External: true})
	for of, want := range map[State]string{
		stateCurrent: api.ServingNotVerified, stateStale: api.ServingNotVerified, stateForeign: api.ServingNotVerified,
		statePropagating: api.ServingNotVerified, statePending: api.ServingNotVerified, stateNew: api.ServingNotVerified,
		statePlaintext: api.ServingPlaintext, stateUnreachable: api.ServingUnreachable, stateNotReady: api.ServingNoConsumers, stateNoPort: api.ServingNoPort,
	} {
		got := servingStatement(svc, "web-tls", Seen{groups: []group{groupOf(svc, "web", of)}}, cert2).unless("SecretMissing").condition(true)
		require.NotNil(t, got, of)
		assert.Equal(t, want, got.Reason, of)
		assert.NotEqual(t, metav1.ConditionTrue, got.Status)
		assert.Empty(t, serving(t, got).Stale)
	}
}

func serving(t *testing.T, c *state.Condition) state.Serving {
	t.Helper()
	said, _ := state.ServingOf(&corev1.Service{Status: corev1.ServiceStatus{Conditions: c.Both()}})
	return said
}

// Services share a Secret: one that names its leaf is enough, and one without Ready has the others' reason.
func TestServingIsUnknownForAllServicesOfASecret(t *testing.T) {
	leaf := rotatortest.Leaf(2)
	missing, invalid := refused("web", "SecretMissing", state.Ready{Secret: "web-tls", External: true}), refused("api", "InvalidAnnotation", state.Ready{})
	added := rotatortest.Asking("new", map[string]string{"app": "web"}, 8443)
	s := lookAt(time.Hour, nil, asked(readyPod("a", "web"), showed(leaf, 0)))
	s.Services = []*corev1.Service{missing, invalid, added}
	conditions := s.Decide().Conditions
	require.Len(t, conditions, 3)
	for i, reason := range []string{"SecretMissing", "InvalidAnnotation", "SecretMissing"} {
		assert.Contains(t, conditions[i].Want.Message, "is False, "+reason)
	}
	s.Services = []*corev1.Service{invalid, rotatortest.Ready("web", leaf)}
	for _, c := range s.Decide().Conditions {
		assert.Equal(t, api.ServingCurrent, c.Want.Reason)
	}
}
