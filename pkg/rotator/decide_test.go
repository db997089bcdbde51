package rotator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// pod is one of a StatefulSet, or a bare one if owner is empty.
func pod(name, app, owner string) *PodFacts {
	return FactsOf(webPod(func(p *corev1.Pod) {
		p.Name, p.Labels["app"] = name, app
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{controlledBy("apps/v1", "StatefulSet", owner)}
		}
	}))
}

func TestGroups(t *testing.T) {
	place := Place{OptedIn: true, Services: []*corev1.Service{service("db", "db-tls", "app", "db"), service("web", "web-tls", "app", "web")}}
	asked := 0
	count := func(labels map[string]string, secret string, conventional bool, services []*corev1.Service) Choice {
		asked++
		return chooseFirst(labels, secret, conventional, services)
	}
	now := metav1.Now()
	leaving := pod("web-9", "web", "web")
	leaving.DeletionTimestamp = &now
	got := groupMissed([]*PodFacts{
		leaving,
		pod("web-1", "web", "web"), pod("web-0", "web", "web"), pod("web-2", "web", "web"),
		pod("db-0", "db", "db"),
		pod("b", "web", ""), pod("a", "web", ""), pod("c", "db", ""),
		pod("other", "other", "other"),
	}, place, count)
	statefulSet := func(name string) Workload { return Workload{"apps/v1", "StatefulSet", name, "u"} }
	assert.Equal(t, []miss{
		{missKey: missKey{secret: "db-tls"}, service: "db", pods: 1, pod: "c", podUID: "uid-of-web"},
		{missKey: missKey{secret: "web-tls"}, service: "web", pods: 2, pod: "a", podUID: "uid-of-web"},
		{missKey: missKey{statefulSet("db"), "db-tls"}, service: "db", pods: 1, pod: "db-0"},
		{missKey: missKey{statefulSet("web"), "web-tls"}, service: "web", pods: 3, pod: "web-0"},
	}, got)
	assert.Equal(t, 5, asked, "once for each template")
	assert.Empty(t, groupMissed(nil, place, count))
}

func misses(n int) []miss {
	out := make([]miss, n)
	for i := range out {
		out[i] = miss{missKey: missKey{secret: fmt.Sprintf("s%03d", i)}, pods: 1}
	}
	return out
}

func TestDecide(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const patience = 30 * time.Second
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	look := func(now time.Time, found []miss, before map[missKey]record) decision {
		return decide(now, patience, 10, found, before)
	}
	two := misses(2)

	d := look(at(0), two[:1], nil)
	assert.Empty(t, d.tell, "a rollout may follow")
	assert.Equal(t, patience, d.after)
	d = look(at(10), two, d.records)
	assert.Empty(t, d.tell)
	assert.Equal(t, 20*time.Second, d.after, "until the first of them is due")
	d = look(at(30), two, d.records)
	assert.Equal(t, two[:1], d.tell)
	assert.Equal(t, 10*time.Second, d.after, "for the second")
	d = look(at(41), two, d.records)
	assert.Equal(t, two[1:], d.tell)
	assert.Zero(t, d.after)
	d = look(at(3600), two, d.records)
	assert.Empty(t, d.tell, "once")
	d = look(at(3601), two[:1], d.records)
	assert.Len(t, d.records, 1, "what is gone is forgotten")
	d = look(at(3602), two, d.records)
	assert.Empty(t, d.tell)
	d = look(at(3640), two, d.records)
	assert.Equal(t, two[1:], d.tell, "and told again if it comes back")
}

func TestManyAtOnceAreToldTogether(t *testing.T) {
	found := misses(1000)
	d := decide(time.Time{}, 0, 10, found, nil)
	assert.Equal(t, found[:10], d.tell)
	assert.Equal(t, found[10:], d.rest)
	again := decide(time.Time{}, 0, 10, found, d.records)
	assert.Empty(t, again.tell)
	assert.Empty(t, again.rest)
	assert.Empty(t, decide(time.Time{}, 0, 10, found[:10], nil).rest)
}

// Whatever comes and goes: what stays for long enough is told exactly once, and
// nothing is told early.
func TestEachMissIsToldOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := misses(6)
		const patience = 10 * time.Second
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		since, told := map[missKey]time.Time{}, map[missKey]bool{}
		var records map[missKey]record
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "seconds")) * time.Second)
			var found []miss
			there := map[missKey]bool{}
			for _, m := range all {
				if rapid.Bool().Draw(t, "there") {
					found, there[m.missKey] = append(found, m), true
				}
			}
			for _, m := range all {
				if !there[m.missKey] {
					delete(since, m.missKey)
					delete(told, m.missKey)
				} else if _, ok := since[m.missKey]; !ok {
					since[m.missKey] = now
				}
			}
			d := decide(now, patience, 3, found, records)
			records = d.records
			for _, m := range append(d.tell, d.rest...) {
				require.True(t, there[m.missKey])
				require.False(t, told[m.missKey], "twice")
				require.GreaterOrEqual(t, now.Sub(since[m.missKey]), patience, "early")
				told[m.missKey] = true
			}
			for _, m := range found {
				waited := now.Sub(since[m.missKey])
				require.Equal(t, waited >= patience, told[m.missKey], "after %s", waited)
				if waited < patience {
					require.LessOrEqual(t, d.after, patience-waited)
					require.Positive(t, d.after)
				}
			}
		}
	})
}
