package serving

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// slowFor is the answer of a port that has timed out for some time.
func slowFor(lasted, after time.Duration) probe.Answer {
	a := noAnswerFor(lasted, after)
	a.Cause, a.Slow = probe.CauseTimeout, true
	return a
}

func TestUnresponsivePodsAreDialledRarely(t *testing.T) {
	silent := func(c consumer, lasted, after time.Duration) consumer {
		c.unresponsive = probe.UnresponsivePeriod{Since: rotatortest.Noon.Add(after - lasted), Last: rotatortest.Noon.Add(after)}
		return c
	}
	with := func(c consumer, change func(*consumer)) consumer {
		change(&c)
		return c
	}
	one := func() consumer {
		return silent(consumerOf([]probe.Answer{slowFor(20*time.Minute, -time.Minute)}), 20*time.Minute, -time.Minute)
	}
	const until = 19 * time.Minute // a minute ago it had been silent for 20
	current := showed(rotatortest.Leaf(2), -2*time.Minute)
	tests := []struct {
		name        string
		c           consumer
		least, most time.Duration
	}{
		{"its certificate was renewed", one(), until, until},
		{"its Service names another port", silent(consumerOf(nil, 443), 20*time.Minute, -time.Minute), until, until},
		{"its Service names one more port", with(one(), func(c *consumer) { c.endpoint.ports = append(c.endpoint.ports, 443) }), until, until},
		{"it was not ready", with(one(), func(c *consumer) { c.seen = rotatortest.Noon }), until, until},
		{"it was woken", with(one(), func(c *consumer) { c.woken = rotatortest.Noon }), until, until},
		{"for less than a pause", silent(consumerOf(nil, 443), 0, -time.Minute), -50 * time.Second, -50 * time.Second},
		{"for very long", silent(consumerOf(nil, 443), 100*time.Hour, 0), 54 * time.Minute, 54 * time.Minute},
		{"another port answers", silent(consumerOf([]probe.Answer{current, slowFor(0, -time.Minute)}), 20*time.Minute, -time.Minute), 52 * time.Minute, 66 * time.Minute},
		{"another port showed an older leaf", silent(consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), -time.Hour), slowFor(0, -time.Hour)}), 20*time.Minute, -time.Minute), 5 * time.Second, 15 * time.Second},
		{"another port answers, and one is new", silent(consumerOf([]probe.Answer{current}, 443), 20*time.Minute, -time.Minute), until, until},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, ok := tt.c.next(cert2, testPace)
			require.True(t, ok)
			assert.GreaterOrEqual(t, at.Sub(rotatortest.Noon), tt.least)
			assert.LessOrEqual(t, at.Sub(rotatortest.Noon), tt.most)
			ports, _ := tt.c.due(at, testPace)
			assert.NotEmpty(t, ports)
		})
	}
	mixed := silent(consumerOf([]probe.Answer{current, slowFor(0, -time.Minute), {Kind: probe.Plaintext, At: rotatortest.Noon}}, 443), 20*time.Minute, -time.Minute)
	ports, partial := mixed.due(rotatortest.Noon.Add(until-time.Second), testPace)
	assert.Equal(t, []uint16{1}, ports)
	assert.True(t, partial)
	ports, partial = mixed.due(rotatortest.Noon.Add(until), testPace)
	assert.Equal(t, []uint16{1, 443, 2}, ports)
	assert.False(t, partial, "a port without TLS is left alone for another reason")
}

func TestStateOfUnresponsivePod(t *testing.T) {
	c := consumerOf([]probe.Answer{slowFor(0, 0)}, 443, 444)
	c.unresponsive = probe.UnresponsivePeriod{Since: rotatortest.Noon.Add(-29 * time.Second), Last: rotatortest.Noon}
	assert.Equal(t, statePending, c.state(cert2, testPace))
	c.unresponsive.Since = rotatortest.Noon.Add(-30 * time.Second)
	assert.Equal(t, stateUnreachable, c.state(cert2, testPace), "this port was dialled once, and others before it")
	before := slowFor(time.Minute, -time.Second)
	assert.Equal(t, stateUnreachable, cert2.state(before, probe.Demand{}, testPace), "a new certificate does not hasten a dial")
	c.answers = []probe.Answer{atPort(1, showed(rotatortest.Leaf(2), 0))}
	assert.Equal(t, stateCurrent, c.state(cert2, testPace), "one has, and the others are not called anything")
}

func TestAnswersOfFormerPortsAreBounded(t *testing.T) {
	_, most := probe.Shares(2)
	m := KeyState{pods: map[types.UID]*podState{"a": {most: most}}}
	for port := range uint16(1000) {
		m.Record("a", []probe.Answer{{Port: port + 1, At: rotatortest.Noon.Add(time.Duration(port) * time.Second)}})
	}
	assert.Len(t, m.pods["a"].answers, 4*probe.MaxPorts)
	assert.EqualValues(t, 1000-4*probe.MaxPorts+1, m.pods["a"].answers[0].Port, "the latest are kept")
}

// Whatever a tenant changes every minute, a pod that never answers is dialled less and less often.
func TestUnresponsivePodProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unresponsive, keyState := probe.NewUnresponsivePods(), NewKeyState(rotatortest.Noon)
		svc := rotatortest.Ready("web", rotatortest.Leaf(1))
		dials, generation := 0, 1
		var previous time.Time
		for now := rotatortest.Noon; now.Before(rotatortest.Noon.Add(6 * time.Hour)); now = now.Add(time.Minute) {
			pod := rotatortest.ReadyPod("a", "web")
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				svc.Spec.Ports[0].TargetPort = intstr.FromInt32(int32(rapid.IntRange(1, 65535).Draw(t, "port")))
			case 1:
				generation++
				renewed := rotatortest.Ready("web", rotatortest.Leaf(generation))
				renewed.Spec = svc.Spec
				svc = renewed
			case 2:
				pod.Status.Conditions = nil // not ready
			case 3:
				keyState.Woken("uid-of-a", now)
			}
			facts := pods.FactsOf(pod)
			d := SecretSituation{Secret: "web-tls", Common: Common{
				Now: now, Namespace: "shop", Services: []*corev1.Service{svc}, Pods: []*pods.Facts{facts},
				KeyState: keyState, Pace: testPace, Unresponsive: map[types.UID]probe.UnresponsivePeriod{facts.UID: unresponsive.Of(facts.UID)},
			}}.Decide()
			keyState = d.KeyState
			for _, v := range d.Dial {
				dials++
				require.GreaterOrEqual(t, now.Sub(previous), min(testPace.Interval*9/10, unresponsive.Of(facts.UID).Last.Sub(unresponsive.Of(facts.UID).Since)))
				previous = now
				answers := []probe.Answer{{Port: v.Ports[0], Kind: probe.NoAnswer, Cause: probe.CauseTimeout, At: now, Slow: true}}
				unresponsive.Record(v, answers)
				keyState.Record(v.Pod, answers)
			}
		}
		require.Positive(t, dials)
		require.LessOrEqual(t, dials, 8+7, "in six hours: each pause is as long as all before it together, up to the interval")
	})
}
