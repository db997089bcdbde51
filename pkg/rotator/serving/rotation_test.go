package serving

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestRotation(t *testing.T) {
	one, two := rotatortest.Leaf(1), rotatortest.Leaf(2)
	pod := pods.FactsOf(rotatortest.ReadyPod("a", "web"))
	known := func(off bool) KeyState {
		m := SecretSituation{Secret: "web-tls", Common: Common{Now: rotatortest.Noon.Add(-time.Hour), Namespace: "shop", Services: []*corev1.Service{rotatortest.Ready("web", one)}, Pods: []*pods.Facts{pod}, Pace: testPace, Off: off}}.Decide().KeyState
		m.Record(pod.UID, []probe.Answer{showed(one, -time.Minute)})
		return m
	}
	tests := []struct {
		name     string
		before   KeyState
		services []*corev1.Service
		want     Rotation
	}{
		{"the first that is known", NewKeyState(rotatortest.Noon), []*corev1.Service{rotatortest.Ready("web", two)}, Rotation{Leaf: two, Since: rotatortest.Noon}},
		{"fromCondition", NewKeyState(rotatortest.Noon), []*corev1.Service{rotatortest.Serves(rotatortest.Ready("web", two), two, rotatortest.Noon.Add(-time.Minute))},
			Rotation{Leaf: two, Since: rotatortest.Noon.Add(-time.Minute), Replaced: true}},
		{"fromCondition, and renewed since", NewKeyState(rotatortest.Noon), []*corev1.Service{rotatortest.Serves(rotatortest.Ready("web", two), one, rotatortest.Noon.Add(-time.Hour))},
			Rotation{Leaf: two, Since: rotatortest.Noon, Replaced: true}},
		{"the same", known(false), []*corev1.Service{rotatortest.Ready("web", one)}, Rotation{Leaf: one, Since: rotatortest.Noon.Add(-time.Hour)}},
		{"renewed", known(false), []*corev1.Service{rotatortest.Ready("web", two)}, Rotation{Leaf: two, Since: rotatortest.Noon, Replaced: true}},
		{"the chain is corrected", known(false), []*corev1.Service{sends(rotatortest.Ready("web", one), link)}, Rotation{Leaf: one, Chain: link, Since: rotatortest.Noon, Replaced: true}},
		{"renewed, not dialled", known(true), []*corev1.Service{rotatortest.Ready("web", two)}, Rotation{Leaf: two, Since: rotatortest.Noon, Replaced: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := SecretSituation{Secret: "web-tls", Common: Common{Now: rotatortest.Noon, Namespace: "shop", Services: tt.services, Pods: []*pods.Facts{pod}, Pace: testPace, KeyState: tt.before, Off: tt.before.pods == nil}}
			d := s.Decide()
			got, ok := d.KeyState.Rotation()
			require.True(t, ok)
			assert.Equal(t, tt.want, got)

			s.KeyState, s.Now = d.KeyState, s.Now.Add(time.Minute)
			got, _ = s.Decide().KeyState.Rotation()
			assert.Equal(t, tt.want, got, "it stays until the next")
		})
	}
	_, ok := NewKeyState(rotatortest.Noon).Rotation()
	assert.False(t, ok)
}

func TestServes(t *testing.T) {
	one, two, alone := showed(rotatortest.Leaf(1), 0), showed(rotatortest.Leaf(2), 0), showed(rotatortest.Leaf(2), 0)
	two.Links = link
	for _, tt := range []struct {
		name    string
		answers []probe.Answer
		want    bool
	}{
		{"not dialled", nil, false},
		{"it", []probe.Answer{two}, true},
		{"it without its chain", []probe.Answer{alone}, false},
		{"another", []probe.Answer{one}, false},
		{"it at one port, another at the next", []probe.Answer{two, one}, false},
		{"it, and no TLS at another port", []probe.Answer{{Kind: probe.Plaintext}, two, noAnswerFor(0, 0)}, true},
		{"no TLS", []probe.Answer{{Kind: probe.Plaintext}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := KeyState{pods: map[types.UID]*podState{"a": {answers: tt.answers}}, certificate: certificate{leaf: rotatortest.Leaf(2), paths: []string{link}}}
			assert.Equal(t, tt.want, m.Serves("a", rotatortest.Leaf(2)))
			assert.False(t, m.Serves("b", rotatortest.Leaf(2)))
		})
	}
}
