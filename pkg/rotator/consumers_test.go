package rotator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// testPace is that of the defaults.
var testPace = pace{interval: time.Hour, propagation: 2 * time.Minute, pause: 10 * time.Second}

// cert2 is a certificate that was followed from the first to the second.
var cert2 = certificate{leaf: leafNo(2), named: []string{leafNo(2)}, since: noon, former: []string{leafNo(1)}}

// showed is an answer with a leaf at a time after noon.
func showed(leaf string, after time.Duration) answer {
	return answer{port: 8443, kind: answeredTLS, at: noon.Add(after), since: noon.Add(after), leaf: leaf}
}

func silentFor(lasted, after time.Duration) answer {
	return answer{port: 8443, kind: answeredNothing, at: noon.Add(after), since: noon.Add(after - lasted)}
}

// consumerOf is a pod with a port for each answer, and those more that are given.
func consumerOf(answers []answer, more ...uint16) consumer {
	f := &PodFacts{Ready: true}
	f.Name, f.UID = "web-a", "uid-of-web-a"
	d := &door{ports: more}
	for i := range answers {
		answers[i].port = uint16(1 + i)
		d.ports = append(d.ports, answers[i].port)
	}
	return consumer{pod: f, door: d, seen: noon.Add(-24 * time.Hour), answers: answers}
}

func TestStatesOfAnAnswer(t *testing.T) {
	ours := func(a answer, issued time.Time) answer {
		a.ours, a.notBefore = true, issued.Add(-5*time.Minute)
		return a
	}
	seen := cert2
	seen.notBefore = noon.Add(-5 * time.Minute)
	both := cert2
	both.named = []string{leafNo(2), leafNo(3)}
	soon, late := 30*time.Second, 3*time.Minute
	tests := []struct {
		name string
		a    answer
		cert certificate
		want State
	}{
		{"current", showed(leafNo(2), soon), cert2, StateCurrent},
		{"current, long ago", showed(leafNo(2), -time.Hour), cert2, StateCurrent},
		{"current, as another Service says", showed(leafNo(3), soon), both, StateCurrent},

		{"the one before, soon", showed(leafNo(1), soon), cert2, StatePropagating},
		{"the one before, late", showed(leafNo(1), late), cert2, StateStale},
		{"the one before, to the second", showed(leafNo(1), 2*time.Minute), cert2, StateStale},
		{"the one before, seen before it was renewed", showed(leafNo(1), -time.Second), cert2, StatePending},

		{"an older one that nobody remembers", ours(showed(leafNo(7), late), noon.Add(-time.Hour)), cert2, StateStale},
		{"an older one that nobody remembers, soon", ours(showed(leafNo(7), soon), noon.Add(-time.Hour)), cert2, StatePropagating},
		{"an older one, by the one that is served elsewhere", ours(showed(leafNo(7), late), noon.Add(-time.Hour)), seen, StateStale},
		{"one of the same second", ours(showed(leafNo(7), late), noon), seen, StateStale},
		{"a newer one, whose condition is on its way", ours(showed(leafNo(7), late), noon.Add(time.Second)), cert2, StatePending},
		{"a newer one, by the one that is served elsewhere", ours(showed(leafNo(7), late), noon.Add(time.Second)), seen, StatePending},
		{"former, however young", ours(showed(leafNo(1), late), noon.Add(time.Hour)), seen, StateStale},

		{"another certificate", showed(leafNo(9), late), cert2, StateForeign},
		{"another certificate, soon", showed(leafNo(9), soon), cert2, StateForeign},
		{"another certificate, seen before", showed(leafNo(9), -time.Second), cert2, StatePending},

		{"plaintext", answer{kind: answeredPlaintext, at: noon.Add(soon)}, cert2, StatePlaintext},
		{"plaintext, long ago", answer{kind: answeredPlaintext, at: noon.Add(-time.Hour)}, cert2, StatePlaintext},
		{"no answer", silentFor(0, late), cert2, StatePending},
		{"no answer for a while", silentFor(29*time.Second, late), cert2, StatePending},
		{"no answer for long", silentFor(30*time.Second, late), cert2, StateUnreachable},
		{"no answer for long, before it was renewed", silentFor(time.Hour, -time.Second), cert2, StatePending},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, tt.a.state(tt.cert, testPace)) })
	}
}

func TestStatesOfAPod(t *testing.T) {
	late := 3 * time.Minute
	stale, current, foreign := showed(leafNo(1), late), showed(leafNo(2), late), showed(leafNo(9), late)
	plain, silent := answer{kind: answeredPlaintext, at: noon.Add(late)}, silentFor(time.Minute, late)
	propagating, outdated := showed(leafNo(1), time.Second), showed(leafNo(1), -time.Second)
	for want, many := range map[State][][]answer{
		StateStale:       {{stale}, {current, stale}, {stale, outdated}, {silent, stale, plain}},
		StatePropagating: {{propagating}, {current, propagating}},
		StatePending:     {{outdated}, {current, outdated}},
		StateCurrent:     {{current}, {current, foreign}, {plain, current}, {silent, current}},
		StateForeign:     {{foreign}, {plain, foreign}, {silent, foreign}},
		StatePlaintext:   {{plain}, {silent, plain}},
		StateUnreachable: {{silent}, {silent, silent}},
	} {
		for _, answers := range many {
			assert.Equal(t, want, consumerOf(answers).state(cert2, testPace), "%v", answers)
		}
	}
	assert.Equal(t, StateNoPort, consumerOf(nil).state(cert2, testPace))
	assert.Equal(t, StatePending, consumerOf(nil, 443).state(cert2, testPace))
	assert.Equal(t, StatePending, consumerOf([]answer{current}, 443).state(cert2, testPace), "not of every port")
	assert.Equal(t, StateStale, consumerOf([]answer{stale}, 443).state(cert2, testPace), "one is enough")
	unready := consumerOf([]answer{stale})
	unready.pod.Ready = false
	assert.Equal(t, StateNotReady, unready.state(cert2, testPace))
}

func TestWhatReadsElsewhere(t *testing.T) {
	c := consumerOf(nil)
	for after, want := range map[time.Duration]bool{-time.Second: false, 0: false, time.Second: true} {
		c.pod.CreationTimestamp = metav1.NewTime(noon.Add(after))
		assert.Equal(t, want, c.readsElsewhere(cert2), "%s", after)
	}
}

// A certificate of anyone else, however it is drawn, is never called an older one
// of the Secret.
func TestPropertyForeignIsNeverStale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := showed(leafNo(rapid.IntRange(10, 20).Draw(t, "leaf")), time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "at")))
		a.notBefore = noon.Add(time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "notBefore")))
		cert := cert2
		if rapid.Bool().Draw(t, "seen") {
			cert.notBefore = noon.Add(time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "current")))
		}
		assert.Contains(t, []State{StateForeign, StatePending}, a.state(cert, testPace))
	})
}

func TestAnswersAreMerged(t *testing.T) {
	port := func(n uint16, a answer) answer {
		a.port = n
		return a
	}
	first := merge(nil, []answer{port(2, showed(leafNo(1), 0)), port(1, silentFor(time.Hour, 0))})
	assert.Equal(t, []answer{port(1, silentFor(0, 0)), port(2, showed(leafNo(1), 0))}, first, "a row begins with its first answer")
	again := merge(first, []answer{port(1, silentFor(0, time.Minute)), port(2, showed(leafNo(2), time.Minute)), port(3, showed(leafNo(2), time.Minute))})
	assert.Equal(t, []answer{port(1, silentFor(time.Minute, time.Minute)), port(2, showed(leafNo(2), time.Minute)), port(3, showed(leafNo(2), time.Minute))}, again)
	assert.Len(t, first, 2, "what was is not changed")
}

func TestLedger(t *testing.T) {
	l := newConsumersLedger()
	key := types.NamespacedName{Namespace: "shop", Name: "web-tls"}
	l.record(visitKey{key, "a"}, []answer{showed(leafNo(1), 0)}) // nobody follows it
	assert.False(t, l.follows(key))

	f := l.open(key, noon)
	assert.Equal(t, noon, f.begun)
	assert.True(t, l.follows(key))
	f.pods = map[types.UID]remembered{"a": {seen: noon}, "b": {seen: noon}}
	l.put(key, f)

	f = l.open(key, noon.Add(time.Hour))
	assert.Equal(t, noon, f.begun, "the first time")
	l.record(visitKey{key, "a"}, []answer{showed(leafNo(1), 0)})
	l.record(visitKey{key, "replaced"}, []answer{showed(leafNo(1), 0)})
	assert.Empty(t, f.pods["a"].answers, "a copy")
	delete(f.pods, "b")
	l.put(key, f)
	f = l.open(key, noon)
	assert.Len(t, f.pods, 1)
	assert.Equal(t, []answer{showed(leafNo(1), 0)}, f.pods["a"].answers, "what came in meanwhile is kept")

	l.forget(key)
	assert.False(t, l.follows(key))
}
