package serving

import (
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// testPace is the default one.
var testPace = Pace{Interval: time.Hour, Propagation: 2 * time.Minute, Pause: 10 * time.Second}

// cert2 is a certificate that replaced the first leaf with the second.
var cert2 = certificate{leaf: rotatortest.Leaf(2), named: []string{rotatortest.Leaf(2)}, since: rotatortest.Noon, former: []string{rotatortest.Leaf(1)}}

// showed is an answer with a leaf at a time after rotatortest.Noon.
func showed(leaf string, after time.Duration) probe.Answer {
	return probe.Answer{Port: 8443, Kind: probe.TLS, At: rotatortest.Noon.Add(after), Since: rotatortest.Noon.Add(after), Leaf: leaf}
}

func noAnswerFor(lasted, after time.Duration) probe.Answer {
	return probe.Answer{Port: 8443, Kind: probe.NoAnswer, At: rotatortest.Noon.Add(after), Since: rotatortest.Noon.Add(after - lasted)}
}

// consumerOf is a pod with a port for each answer, and the given further ports.
func consumerOf(answers []probe.Answer, more ...uint16) consumer {
	f := &pods.Facts{Ready: true, Template: unique.Make(pods.Template{})}
	f.Name, f.UID = "web-a", "uid-of-web-a"
	d := &endpoint{ports: more}
	for i := range answers {
		answers[i].Port = uint16(1 + i)
		d.ports = append(d.ports, answers[i].Port)
	}
	d.sets = [][]uint16{d.ports} // one of them is to serve
	return consumer{pod: f, endpoint: d, seen: rotatortest.Noon.Add(-24 * time.Hour), answers: answers}
}

func TestStatesOfAnAnswer(t *testing.T) {
	ours := func(a probe.Answer, issued time.Time) probe.Answer {
		a.Ours, a.NotBefore = true, issued.Add(-5*time.Minute)
		return a
	}
	seen := cert2
	seen.notBefore = rotatortest.Noon.Add(-5 * time.Minute)
	since := func(a probe.Answer, lasted time.Duration) probe.Answer {
		a.Since = a.At.Add(-lasted)
		return a
	}
	both := cert2
	both.named = []string{rotatortest.Leaf(2), rotatortest.Leaf(3)}
	chained := both
	chained.paths = []string{"0000000000000000." + link, link}
	sent := func(a probe.Answer, links string) probe.Answer {
		a.Links = links
		return a
	}
	soon, late := 30*time.Second, 3*time.Minute
	tests := []struct {
		name string
		a    probe.Answer
		cert certificate
		want State
	}{
		{"current", showed(rotatortest.Leaf(2), soon), cert2, stateCurrent},
		{"current, long ago", showed(rotatortest.Leaf(2), -time.Hour), cert2, stateCurrent},
		{"current, by another Service", showed(rotatortest.Leaf(3), soon), both, stateCurrent},

		{"current, with its chain", sent(showed(rotatortest.Leaf(2), -time.Hour), "fedcba9876543210."+link), chained, stateCurrent},
		{"current, with an earlier chain", sent(showed(rotatortest.Leaf(2), late), "fedcba9876543210"), chained, stateStale},
		{"current, without a chain, soon", showed(rotatortest.Leaf(2), soon), chained, statePropagating},
		{"current, without a chain, seen before", showed(rotatortest.Leaf(2), -time.Second), chained, statePending},
		{"the one before, whatever its chain", sent(showed(rotatortest.Leaf(1), late), link), chained, stateStale},
		{"current, by another Service, whatever its chain", showed(rotatortest.Leaf(3), late), chained, stateCurrent},

		{"the one before, soon", showed(rotatortest.Leaf(1), soon), cert2, statePropagating},
		{"the one before, late", showed(rotatortest.Leaf(1), late), cert2, stateStale},
		{"the one before, to the second", showed(rotatortest.Leaf(1), 2*time.Minute), cert2, stateStale},
		{"the one before, seen before it was renewed", showed(rotatortest.Leaf(1), -time.Second), cert2, statePending},

		{"an unknown older one", ours(showed(rotatortest.Leaf(7), late), rotatortest.Noon.Add(-time.Hour)), cert2, stateStale},
		{"an unknown older one, soon", ours(showed(rotatortest.Leaf(7), soon), rotatortest.Noon.Add(-time.Hour)), cert2, statePropagating},
		{"an older one, by the one that another pod serves", ours(showed(rotatortest.Leaf(7), late), rotatortest.Noon.Add(-time.Hour)), seen, stateStale},
		{"one of the same second", ours(showed(rotatortest.Leaf(7), late), rotatortest.Noon), seen, stateStale},
		{"a newer one, whose condition is on its way", ours(showed(rotatortest.Leaf(7), late), rotatortest.Noon.Add(time.Second)), cert2, statePending},
		{"a newer one, by the one that another pod serves", ours(showed(rotatortest.Leaf(7), late), rotatortest.Noon.Add(time.Second)), seen, statePending},
		{"a newer one, for the propagation time", since(ours(showed(rotatortest.Leaf(7), time.Hour), rotatortest.Noon.Add(time.Second)), 2*time.Minute), cert2, stateForeign},
		{"a newer one, almost as long", since(ours(showed(rotatortest.Leaf(7), time.Hour), rotatortest.Noon.Add(time.Second)), 2*time.Minute-time.Second), cert2, statePending},
		{"former, however young", ours(showed(rotatortest.Leaf(1), late), rotatortest.Noon.Add(time.Hour)), seen, stateStale},

		{"another certificate", showed(rotatortest.Leaf(9), late), cert2, stateForeign},
		{"another certificate, soon", showed(rotatortest.Leaf(9), soon), cert2, stateForeign},
		{"another certificate, seen before", showed(rotatortest.Leaf(9), -time.Second), cert2, statePending},

		{"plaintext", probe.Answer{Kind: probe.Plaintext, At: rotatortest.Noon.Add(soon)}, cert2, statePlaintext},
		{"plaintext, long ago", probe.Answer{Kind: probe.Plaintext, At: rotatortest.Noon.Add(-time.Hour)}, cert2, statePlaintext},
		{"not verified", probe.Answer{Kind: probe.NotVerified, At: rotatortest.Noon.Add(soon)}, cert2, stateNotVerified},
		{"not verified, before it was renewed", probe.Answer{Kind: probe.NotVerified, At: rotatortest.Noon.Add(-time.Hour)}, cert2, stateNotVerified},
		{"no answer", noAnswerFor(0, late), cert2, statePending},
		{"no answer for a while", noAnswerFor(29*time.Second, late), cert2, statePending},
		{"no answer for long", noAnswerFor(30*time.Second, late), cert2, stateUnreachable},
		{"no answer for long, before it was renewed", noAnswerFor(time.Hour, -time.Second), cert2, statePending},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, tt.cert.state(tt.a, probe.Demand{}, testPace)) })
	}
}

func TestStatesOfAPod(t *testing.T) {
	late := 3 * time.Minute
	stale, current, foreign := showed(rotatortest.Leaf(1), late), showed(rotatortest.Leaf(2), late), showed(rotatortest.Leaf(9), late)
	plain, silent := probe.Answer{Kind: probe.Plaintext, At: rotatortest.Noon.Add(late)}, noAnswerFor(time.Minute, late)
	propagating, outdated := showed(rotatortest.Leaf(1), time.Second), showed(rotatortest.Leaf(1), -time.Second)
	for want, many := range map[State][][]probe.Answer{
		stateStale:       {{stale}, {current, stale}, {stale, outdated}, {silent, stale, plain}},
		statePropagating: {{propagating}, {current, propagating}},
		statePending:     {{outdated}, {current, outdated}},
		stateCurrent:     {{current}, {current, foreign}, {plain, current}, {silent, current}},
		stateForeign:     {{foreign}, {plain, foreign}, {silent, foreign}},
		statePlaintext:   {{plain}, {silent, plain}},
		stateUnreachable: {{silent}, {silent, silent}},
	} {
		for _, answers := range many {
			assert.Equal(t, want, consumerOf(answers).state(cert2, testPace), "%v", answers)
		}
	}
	assert.Equal(t, stateNoPort, consumerOf(nil).state(cert2, testPace))
	assert.Equal(t, statePending, consumerOf(nil, 443).state(cert2, testPace))
	assert.Equal(t, statePending, consumerOf([]probe.Answer{current}, 443).state(cert2, testPace), "not of every port")
	assert.Equal(t, stateStale, consumerOf([]probe.Answer{stale}, 443).state(cert2, testPace), "one is enough")
	for _, answers := range [][]probe.Answer{{plain, current}, {current, plain}} {
		each := consumerOf(answers)
		each.endpoint.sets = [][]uint16{{1}, {2}}
		assert.Equal(t, statePlaintext, each.state(cert2, testPace), "each set of ports has to serve")
	}
	unready := consumerOf([]probe.Answer{stale})
	unready.pod.Ready = false
	assert.Equal(t, stateNotReady, unready.state(cert2, testPace))
}

// There is no propagation time if the program only loads a new certificate at its start, and may be
// restarted.
func TestRestartOnlyPrograms(t *testing.T) {
	for _, c := range []struct {
		template pods.Template
		want     State
	}{
		{pods.Template{}, statePropagating},
		{pods.Template{Restarts: true}, stateStale},
	} {
		pod := consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), time.Second)})
		pod.pod.Template = unique.Make(c.template)
		assert.Equal(t, c.want, pod.state(cert2, testPace))
	}
}

func TestReadsOtherFiles(t *testing.T) {
	c := consumerOf(nil)
	for after, want := range map[time.Duration]bool{-time.Second: false, 0: false, time.Second: true} {
		c.pod.CreationTimestamp = metav1.NewTime(rotatortest.Noon.Add(after))
		assert.Equal(t, want, c.readsOtherFiles(cert2, testPace), "%s", after)
	}
}

// A foreign certificate is never called an older one of the Secret.
func TestPropertyForeignIsNeverStale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := showed(rotatortest.Leaf(rapid.IntRange(10, 20).Draw(t, "leaf")), time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "at")))
		a.NotBefore = rotatortest.Noon.Add(time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "notBefore")))
		cert := cert2
		if rapid.Bool().Draw(t, "seen") {
			cert.notBefore = rotatortest.Noon.Add(time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "current")))
		}
		assert.Contains(t, []State{stateForeign, statePending}, cert.state(a, probe.Demand{}, testPace))
	})
}
