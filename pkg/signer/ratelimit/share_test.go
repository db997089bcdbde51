package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/limit"
)

// For any requests of tenants at any time, no pod and no namespace gets more certificates than
// the limits permit. The time of a waiting request stays the same, and requests of other tenants
// do not affect it.
func TestSharesOfRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := Rates{
			Secret:    limit.Limit{Burst: rapid.IntRange(1, 3).Draw(t, "pod burst"), Interval: time.Minute},
			Namespace: limit.Limit{Burst: rapid.IntRange(1, 4).Draw(t, "namespace burst"), Interval: time.Second},
		}
		pace, alone := New(rates), New(rates)
		byPod, byNamespace := map[types.NamespacedName][]time.Time{}, map[string][]time.Time{} // tokens
		waiting := map[Share]time.Time{}
		now := epoch
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "pause")) * time.Millisecond)
			tenant := rapid.SampledFrom([]string{"busy", "busy", "busy", "shop"}).Draw(t, "tenant")
			pod := types.UID(rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "pod"))
			share := ShareOfPod(types.UID(fmt.Sprint(i)), tenant, pod)
			slot := pace.ReserveShare(share, now)
			if tenant == "shop" {
				assert.Equal(t, alone.ReserveShare(share, now), slot, "the other tenant is not noticed")
			}
			require.False(t, slot.At().Before(now))
			byPod[share.Subject] = append(byPod[share.Subject], slot.Secret)
			if !slot.Namespace.IsZero() {
				byNamespace[tenant] = append(byNamespace[tenant], slot.Namespace)
			}
			waiting[share] = slot.At()
			for other, before := range waiting {
				assert.Equal(t, before, pace.ReserveShare(other, now).At(), "it is reserved once")
				if !before.After(now) {
					pace.Use(other.Request)
					delete(waiting, other)
				}
			}
		}
		for pod, times := range byPod {
			assertHeld(t, rates.Secret, times, pod.String())
		}
		for namespace, times := range byNamespace {
			assertHeld(t, rates.Namespace, times, namespace)
		}
	})
}

// assertHeld checks that a limit held for times in the order in which they were given.
func assertHeld(t *rapid.T, l limit.Limit, times []time.Time, of string) {
	for i := range times {
		for j := i; j < len(times); j++ {
			most := l.Burst + int(times[j].Sub(times[i])/l.Interval)
			assert.LessOrEqual(t, j-i+1, most, "%s within %s", of, times[j].Sub(times[i]))
		}
	}
}

// The first certificate of each pod is free of the namespace's limit, so that many pods can start
// at once. Further certificates of a pod are not.
func TestManyPodsAndOnePodOfMany(t *testing.T) {
	p := New(Rates{Secret: limit.Limit{Burst: 20, Interval: time.Minute}, Namespace: limit.Limit{Burst: 10, Interval: time.Second}})
	for i := range 5000 {
		slot := p.ReserveShare(ShareOfPod(types.UID(fmt.Sprint("first-", i)), "shop", types.UID(fmt.Sprint(i))), epoch)
		assert.Equal(t, epoch, slot.At())
	}
	var times []time.Duration
	for i := range 100 {
		slot := p.ReserveShare(ShareOfPod(types.UID(fmt.Sprint("many-", i)), "shop", "0"), epoch)
		times = append(times, slot.At().Sub(epoch))
	}
	assert.Zero(t, times[9], "ten tokens of the namespace")
	assert.Equal(t, 9*time.Second, times[18])
	assert.Equal(t, 81*time.Minute, times[99], "and twenty of the pod")
	second := p.ReserveShare(ShareOfPod("second", "shop", "2"), epoch)
	assert.Equal(t, 91*time.Second, second.At().Sub(epoch), "its own waiting delays nobody by more than its tokens of the namespace")
	later := p.ReserveShare(ShareOfPod("refresh", "shop", "1"), epoch.Add(time.Minute))
	assert.Equal(t, epoch.Add(time.Minute), later.At(), "a refresh is free again")

	host := ShareOfOther("first", "user:host-1", []string{"web.shop.svc"}, nil)
	for range 10 {
		p.ReserveShare(host, epoch)
		p.Use(host.Request)
	}
	assert.Equal(t, epoch.Add(time.Second), p.ReserveShare(host, epoch).At(), "not so of who is no pod")
}

// The name of a request is never that of a Secret, and the slot of a deleted request is released.
func TestSlotsOfRequests(t *testing.T) {
	p := New(DefaultRates())
	share := ShareOfPod("uid", "shop", "pod")
	p.ReserveShare(share, epoch)
	assert.Zero(t, p.Slot(types.NamespacedName{Namespace: "shop", Name: "uid"}))
	assert.Equal(t, "request/uid", share.Request.Name, "a slash is in no Secret's name")
	p.Use(share.Request)
	assert.Empty(t, p.slots)
}
