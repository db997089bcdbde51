package probe

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestUnresponsivePods(t *testing.T) {
	at := func(after time.Duration) time.Time { return rotatortest.Noon.Add(after) }
	slow := func(after time.Duration) []Answer {
		return []Answer{{Port: 1, Kind: TLS, At: at(after - time.Second)}, {Port: 2, Kind: NoAnswer, Cause: CauseTimeout, At: at(after), Slow: true}}
	}
	target := func(secret string, partial bool) Target {
		return Target{Key: Key{Of: pods.NamespacedKey{Namespace: "shop", Key: pods.SecretKey(secret)}, Pod: "a"}, Partial: partial}
	}
	s := NewUnresponsivePods()
	assert.Zero(t, s.Of("a"))
	s.Record(target("web-tls", false), slow(0))
	assert.Equal(t, UnresponsivePeriod{at(0), at(0)}, s.Of("a"))
	s.Record(target("api-tls", false), slow(time.Minute))
	assert.Equal(t, UnresponsivePeriod{at(0), at(time.Minute)}, s.Of("a"), "whichever Secret it is")
	assert.Zero(t, s.Of("b"))
	s.Record(target("web-tls", true), slow(0)[:1])
	s.Record(target("web-tls", false), nil)
	s.Record(target("web-tls", false), Target{Ports: []uint16{1}}.Unverified(at(time.Minute), CauseLoopback))
	assert.Equal(t, UnresponsivePeriod{at(0), at(time.Minute)}, s.Of("a"), "only some of its ports were dialled")
	s.Record(target("web-tls", true), slow(2*time.Minute))
	assert.Equal(t, UnresponsivePeriod{at(0), at(2 * time.Minute)}, s.Of("a"))
	s.Record(target("web-tls", false), slow(0)[:1])
	assert.Zero(t, s.Of("a"), "all of its ports answered in time")
}

func TestUnresponsivePodsThatAreGoneAreForgotten(t *testing.T) {
	s := NewUnresponsivePods()
	for i := range 20 * minPruned {
		at := rotatortest.Noon.Add(time.Duration(i) * 4 * time.Minute)
		s.Record(Target{Key: Key{Pod: types.UID(fmt.Sprint(i))}}, []Answer{{At: at, Slow: true}})
		assert.NotZero(t, s.Of(types.UID(fmt.Sprint(max(0, i-300)))))
	}
	assert.LessOrEqual(t, len(s.pods), minPruned)
}

func TestOrderOfPorts(t *testing.T) {
	at := func(port uint16, minutes int, slow bool) Answer {
		return Answer{Port: port, At: rotatortest.Noon.Add(time.Duration(minutes) * time.Minute), Slow: slow}
	}
	ports := []uint16{1, 2, 3, 4, 5, 6}
	assert.Equal(t, ports, Order(ports, nil))
	assert.Equal(t, []uint16{4, 1, 2, 5, 6, 3}, Order(ports, []Answer{at(1, 2, false), at(3, 4, true), at(4, 1, false), at(6, 3, true)}))
	assert.Equal(t, []uint16{1, 2, 3, 4, 5, 6}, ports, "what was is not changed")
	assert.Equal(t, []uint16{6, 2}, Order([]uint16{2, 6}, []Answer{at(1, 0, false), at(6, 1, false)}), "an answer of a port that is no longer dialled")
}

func TestLatest(t *testing.T) {
	at := func(port uint16, minutes int) Answer {
		return Answer{Port: port, At: rotatortest.Noon.Add(time.Duration(minutes) * time.Minute)}
	}
	all := []Answer{at(1, 5), at(2, 1), at(3, 4), at(4, 2)}
	assert.Equal(t, all, Latest(all, 4))
	assert.Equal(t, []Answer{at(1, 5), at(3, 4)}, Latest(all, 2))
	assert.Equal(t, []Answer{at(1, 5), at(2, 1), at(3, 4), at(4, 2)}, all, "what was is not changed")
}
