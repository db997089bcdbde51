package serving

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestNext(t *testing.T) {
	late := time.Hour
	unready := consumerOf([]probe.Answer{showed(rotatortest.Leaf(2), 0)})
	unready.pod.Ready = false
	back := func(c consumer, seen time.Duration) consumer {
		c.seen = rotatortest.Noon.Add(seen)
		return c
	}
	woken := func(c consumer, at time.Duration) consumer {
		c.woken = rotatortest.Noon.Add(at)
		return c
	}
	tests := []struct {
		name        string
		c           consumer
		least, most time.Duration // after rotatortest.Noon
	}{
		{"new", back(consumerOf(nil, 443), time.Minute), time.Minute, time.Minute + 2*time.Second},
		{"a port is new", back(consumerOf([]probe.Answer{showed(rotatortest.Leaf(2), 0)}, 443), -time.Minute), 10 * time.Second, 10 * time.Second},
		{"was not ready", back(consumerOf([]probe.Answer{showed(rotatortest.Leaf(2), 0)}), time.Hour), time.Hour, time.Hour + 2*time.Second},
		{"comes and goes", back(consumerOf([]probe.Answer{showed(rotatortest.Leaf(2), 0)}), time.Second), 10 * time.Second, 10 * time.Second},
		{"current", consumerOf([]probe.Answer{showed(rotatortest.Leaf(2), time.Minute)}), 55 * time.Minute, 67 * time.Minute},
		{"plaintext", consumerOf([]probe.Answer{{Kind: probe.Plaintext, At: rotatortest.Noon.Add(-time.Minute)}}), 53 * time.Minute, 65 * time.Minute},
		{"outdated", consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), -time.Hour)}), 5 * time.Second, 15 * time.Second},
		{"foreign, and renewed", consumerOf([]probe.Answer{showed(rotatortest.Leaf(9), -time.Hour)}), 5 * time.Second, 15 * time.Second},
		{"propagating", consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), time.Minute)}), 70 * time.Second, 75 * time.Second},
		{"stale at last", consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), 121*time.Second)}), 131 * time.Second, 136 * time.Second},
		{"stale for long", consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), 12*time.Minute)}), 22 * time.Minute, 27 * time.Minute},
		{"stale for very long", consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), 12*time.Hour)}), 12*time.Hour + 54*time.Minute, 13*time.Hour + 6*time.Minute},
		{"unreachable at last", consumerOf([]probe.Answer{noAnswerFor(0, late)}), late + 10*time.Second, late + 15*time.Second},
		{"unreachable for long", consumerOf([]probe.Answer{noAnswerFor(5*time.Minute, late)}), late + 5*time.Minute, late + 450*time.Second},
		{"woken", woken(consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), -time.Hour)}), time.Second), 1300 * time.Millisecond, 1300 * time.Millisecond},
		{"woken, and dialled while it was", woken(consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), 1100*time.Millisecond)}), time.Second), 1300 * time.Millisecond, 1300 * time.Millisecond},
		{"woken, and not current the first time", woken(consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), 1310*time.Millisecond)}), time.Second), 2 * time.Second, 2 * time.Second},
		{"woken, and not current the second time", woken(consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), 2010*time.Millisecond)}), time.Second), 12 * time.Second, 18 * time.Second},
		{"woken, and current", woken(consumerOf([]probe.Answer{showed(rotatortest.Leaf(2), 1310*time.Millisecond)}), time.Second), 54 * time.Minute, 67 * time.Minute},
		{"woken for an earlier certificate", woken(consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), -time.Hour)}), -2*time.Hour), 5 * time.Second, 15 * time.Second},
		{"foreign at last", consumerOf([]probe.Answer{showed(rotatortest.Leaf(9), late)}), late + 10*time.Second, late + 15*time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, ok := tt.c.next(cert2, testPace)
			require.True(t, ok)
			assert.GreaterOrEqual(t, at.Sub(rotatortest.Noon), tt.least)
			assert.LessOrEqual(t, at.Sub(rotatortest.Noon), tt.most)
		})
	}
	for name, c := range map[string]consumer{"not ready": unready, "no port": consumerOf(nil)} {
		_, ok := c.next(cert2, testPace)
		assert.False(t, ok, name)
	}
}

func TestPortsWithoutTLSAreDialledRarely(t *testing.T) {
	c := consumerOf([]probe.Answer{{Kind: probe.Plaintext, At: rotatortest.Noon}, showed(rotatortest.Leaf(1), 0), noAnswerFor(0, 0)}, 9)
	ports, _ := c.due(rotatortest.Noon.Add(time.Minute), testPace)
	assert.Equal(t, []uint16{2, 3, 9}, ports)
	ports, _ = c.due(rotatortest.Noon.Add(54*time.Minute), testPace)
	assert.Equal(t, []uint16{1, 2, 3, 9}, ports)
}

// A pod that is dialled whenever it is due is dialled often enough to be seen in time, and not more
// often, before and after it changes.
func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := time.Duration(rapid.Int64Range(0, int64(6*time.Hour)).Draw(t, "changes")) // to the new leaf
		c := consumerOf([]probe.Answer{showed(rotatortest.Leaf(1), -time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "seen")))})
		c.pod.UID = types.UID(rapid.StringMatching(`[0-9a-f-]{36}`).Draw(t, "uid"))
		dials, inTime, previous, found := 0, 0, time.Duration(0), time.Duration(0)
		for {
			at, ok := c.next(cert2, testPace)
			require.True(t, ok)
			after := at.Sub(rotatortest.Noon)
			if after > 12*time.Hour {
				break
			}
			dials++
			if after <= testPace.Propagation {
				inTime++
			}
			if dials > 1 {
				require.GreaterOrEqual(t, after-previous, testPace.Pause)
				require.LessOrEqual(t, after-previous, testPace.Interval*6/5)
			} else {
				require.GreaterOrEqual(t, after, testPace.Pause/2)
				require.LessOrEqual(t, after, testPace.Pause*3/2)
			}
			previous = after
			leaf := rotatortest.Leaf(1)
			if after >= changes {
				leaf = rotatortest.Leaf(2)
			}
			c.answers = probe.Merge(c.answers, []probe.Answer{{Port: 1, Kind: probe.TLS, At: at, Leaf: leaf}})
			if leaf == rotatortest.Leaf(2) && found == 0 {
				found = after - changes
			}
		}
		lasted := max(testPace.Pause, changes-testPace.Propagation)
		require.LessOrEqual(t, found, min(lasted*3/2, testPace.Interval*6/5), "the longer it took, the later it is found")
		require.LessOrEqual(t, inTime, 13, "in the propagation time")
		require.LessOrEqual(t, dials, 13+15+14, "in twelve hours")
	})
}

func TestJitterSpreads(t *testing.T) {
	const n = 10_000
	var buckets [10]int
	for i := range n {
		c := consumerOf(nil)
		c.pod.UID = types.UID(fmt.Sprintf("0b8a2c55-3b8c-4b58-9f2e-%012d", i))
		j := c.jitter(rotatortest.Noon, time.Second, 10*time.Second)
		require.Equal(t, j, c.jitter(rotatortest.Noon, time.Second, 10*time.Second), "a function of pod and moment")
		require.GreaterOrEqual(t, j, time.Second)
		require.Less(t, j, 11*time.Second)
		buckets[int((j-time.Second)/time.Second)]++
	}
	for i, got := range buckets {
		assert.InDelta(t, n/10, got, n/100, "bucket %d", i)
	}
	c := consumerOf(nil)
	moments := map[time.Duration]bool{}
	for i := range 100 {
		moments[c.jitter(rotatortest.Noon.Add(time.Duration(i)*time.Second), 0, time.Hour)] = true
	}
	assert.Len(t, moments, 100)
}
