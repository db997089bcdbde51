package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/limit"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC) // not a whole second, as a clock's is not

func secretKey(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestPace(t *testing.T) {
	p := New(Rates{Secret: limit.Limit{Burst: 2, Interval: time.Minute}, Namespace: limit.Limit{Burst: 3, Interval: time.Second}})
	web, api, bank := secretKey("shop", "web"), secretKey("shop", "api"), secretKey("bank", "web")
	reserve := func(key types.NamespacedName, tokens int, now time.Time) (secret, namespace time.Duration) {
		slot := p.Reserve(key, tokens, now)
		assert.Equal(t, slot, p.Slot(key))
		if !slot.Namespace.IsZero() {
			namespace = slot.Namespace.Sub(epoch)
		}
		return slot.Secret.Sub(epoch), namespace
	}
	for range 2 {
		secret, _ := reserve(web, 0, epoch)
		assert.Zero(t, secret)
		assert.True(t, p.Slot(web).Namespace.IsZero(), "it takes no token of its namespace")
		p.Use(web)
	}
	secret, _ := reserve(web, 0, epoch)
	assert.Equal(t, time.Minute, secret, "its third")
	again, _ := reserve(web, 0, epoch.Add(time.Second))
	assert.Equal(t, secret, again, "it takes no token again while it waits")
	_, namespace := reserve(web, 1, epoch.Add(time.Second))
	assert.Equal(t, time.Minute, namespace, "no earlier than the Secret's")

	secret, _ = reserve(api, 0, epoch)
	assert.Zero(t, secret, "another Secret has tokens of its own")
	_, namespace = reserve(bank, 3, epoch)
	assert.Zero(t, namespace)
	p.Use(bank)
	_, namespace = reserve(bank, 1, epoch)
	assert.Equal(t, time.Second, namespace)
	p.Use(bank)
	assert.Zero(t, p.Slot(bank))
}

// Secrets that wait for their namespace have their turns one after the other, whatever
// is asked meanwhile.
func TestThoseThatWaitHaveTheirTurn(t *testing.T) {
	p := New(Rates{Namespace: limit.Limit{Burst: 1, Interval: time.Second}})
	for i := range 100 {
		slot := p.Reserve(types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)}, 1, epoch)
		assert.Equal(t, epoch.Add(time.Duration(i)*time.Second), slot.Namespace)
	}
	slot := p.Reserve(secretKey("shop", "7"), 1, epoch.Add(5*time.Second))
	assert.Equal(t, epoch.Add(7*time.Second), slot.Namespace)
}

func TestPaceForgets(t *testing.T) {
	p := New(DefaultRates())
	for i := range 20000 {
		now := epoch.Add(time.Duration(i) * time.Second)
		key := types.NamespacedName{Namespace: fmt.Sprint("team-", i), Name: "tls"}
		p.Reserve(key, 1, now)
		if i%2 == 0 {
			p.Use(key)
		}
		require.LessOrEqual(t, len(p.secrets)+p.namespaces.Len()+len(p.slots), 3*limit.MinSweep)
	}
}

// What puts a certificate off is the later of the two limits, and the time that is told is a whole
// second, and no earlier.
func TestWhatPutsACertificateOff(t *testing.T) {
	r := Rates{Secret: limit.Limit{Burst: 2, Interval: time.Minute}, Namespace: limit.Limit{Burst: 3, Interval: time.Second}}
	soon, later, whole := epoch.Add(time.Second), epoch.Add(2*time.Second), epoch.Truncate(time.Second)
	at, why := r.Next(Slot{Secret: later, Namespace: soon})
	assert.Equal(t, later, at)
	assert.Regexp(t, `one Secret is reached .* issued at 2026-03-01T12:00:03Z$`, why)
	at, why = r.Next(Slot{Secret: soon, Namespace: later})
	assert.Equal(t, later, at)
	assert.Contains(t, why, "one namespace is reached")
	_, why = r.Next(Slot{Secret: whole})
	assert.Contains(t, why, "2026-03-01T12:00:00Z")

	until, why, waits := r.waits(Share{Text: "one pod"}, Slot{Secret: later}, soon)
	assert.True(t, waits)
	assert.Equal(t, later, until)
	assert.Regexp(t, `one pod is reached .* answered at 2026-03-01T12:00:03Z$`, why)
	_, _, waits = r.waits(Share{Text: "one pod"}, Slot{Secret: later}, later)
	assert.False(t, waits)
}
