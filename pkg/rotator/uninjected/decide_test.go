package uninjected

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// pod is one of a StatefulSet, or a bare one if owner is empty.
func pod(name, app, owner string) *pods.Facts {
	return pods.FactsOf(rotatortest.Pod(func(p *corev1.Pod) {
		p.Name, p.Labels["app"] = name, app
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "StatefulSet", owner)}
		}
	}))
}

func TestGroups(t *testing.T) {
	place := Place{OptedIn: true, Services: []*corev1.Service{rotatortest.Service("db", "db-tls", "app", "db"), rotatortest.Service("web", "web-tls", "app", "web")}}
	now := metav1.Now()
	leaving := pod("web-9", "web", "web")
	leaving.DeletionTimestamp = &now
	all := []*pods.Facts{
		leaving,
		pod("web-1", "web", "web"), pod("web-0", "web", "web"), pod("web-2", "web", "web"),
		pod("db-0", "db", "db"),
		pod("b", "web", ""), pod("a", "web", ""), pod("c", "db", ""),
		pod("other", "other", "other"),
	}
	statefulSet := func(name string) pods.Workload {
		return pods.Workload{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name, UID: "u"}
	}
	assert.Equal(t, []Group{
		{Key: Key{Gets: pods.SecretKey("db-tls")}, Service: "db", Pods: 1, Pod: "c", PodUID: "uid-of-web"},
		{Key: Key{Gets: pods.SecretKey("web-tls")}, Service: "web", Pods: 2, Pod: "a", PodUID: "uid-of-web"},
		{Key: Key{Workload: statefulSet("db"), Gets: pods.SecretKey("db-tls")}, Service: "db", Pods: 1, Pod: "db-0"},
		{Key: Key{Workload: statefulSet("web"), Gets: pods.SecretKey("web-tls")}, Service: "web", Pods: 3, Pod: "web-0"},
	}, group(all, place))
	assert.Len(t, verdictsOf(all, place), 5, "once for each template")
	assert.Empty(t, group(nil, place))
}

// Notes of the webhook are reported once per workload, for any number of pods and templates, and
// the pods do not count as missed.
func TestNotesAreReportedOncePerWorkload(t *testing.T) {
	noted := func(name, owner, note string) *pods.Facts {
		return pods.FactsOf(rotatortest.Pod(func(p *corev1.Pod) {
			p.Name = name
			p.Annotations = map[string]string{api.AnnotationStatus: api.InjectionStatus{Secret: "web-tls", Service: "web", Reason: "NotServing", Notes: []string{note, "x: y"}}.Format()}
			if owner != "" {
				p.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "StatefulSet", owner)}
			}
			p.Labels["of"] = name // a template of its own
		}))
	}
	s := Situation{
		Place: Place{OptedIn: true, Services: []*corev1.Service{rotatortest.Service("web", "web-tls", "app", "web")}}, MaxEvents: 10,
		Pods: []*pods.Facts{
			noted("web-1", "web", "NotServing: no port"), noted("web-0", "web", "NotServing: no port"), noted("web-2", "web", "Other: z"),
			noted("bare", "", "NotServing: whoever made it has read that"), noted("odd-0", "web;reboot", "NotServing: no port"),
		},
	}
	d := Decide(s)
	web := pods.Workload{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u"}
	assert.Equal(t, []Group{
		{Key: Key{Workload: web, Noted: "NotServing: no port; x: y"}, Pods: 2, Pod: "web-0"},
		{Key: Key{Workload: web, Noted: "Other: z; x: y"}, Pods: 1, Pod: "web-2"},
	}, d.Notify)
	assert.Zero(t, d.Pods+d.Workloads)
	s.GroupStates, s.Pods = d.GroupStates, append(s.Pods, noted("web-3", "web", "NotServing: no port"))
	assert.Empty(t, Decide(s).Notify)
	s.Place.OptedIn = false
	assert.Equal(t, Decision{Forget: true}, Decide(s))
}

func misses(n int) []Group {
	out := make([]Group, n)
	for i := range out {
		out[i] = Group{Key: Key{Gets: pods.SecretKey(fmt.Sprintf("s%03d", i))}, Pods: 1}
	}
	return out
}

func TestDecide(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const patience = 30 * time.Second
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	look := func(now time.Time, found []Group, before map[Key]GroupState) Decision {
		return Situation{Now: now, Patience: patience, MaxEvents: 10, GroupStates: before}.decide(found)
	}
	two := misses(2)

	d := look(at(0), two[:1], nil)
	assert.Empty(t, d.Notify, "a rollout may follow")
	assert.Equal(t, patience, d.After)
	d = look(at(10), two, d.GroupStates)
	assert.Empty(t, d.Notify)
	assert.Equal(t, 20*time.Second, d.After, "until the first of them is due")
	d = look(at(30), two, d.GroupStates)
	assert.Equal(t, two[:1], d.Notify)
	assert.Equal(t, 10*time.Second, d.After, "for the second")
	d = look(at(41), two, d.GroupStates)
	assert.Equal(t, two[1:], d.Notify)
	assert.Zero(t, d.After)
	d = look(at(3600), two, d.GroupStates)
	assert.Empty(t, d.Notify, "once")
	d = look(at(3601), two[:1], d.GroupStates)
	assert.Len(t, d.GroupStates, 1, "a group that is gone is forgotten")
	d = look(at(3602), two, d.GroupStates)
	assert.Empty(t, d.Notify)
	d = look(at(3640), two, d.GroupStates)
	assert.Equal(t, two[1:], d.Notify, "and reported again if it comes back")
}

func TestManyGroupsAreReportedTogether(t *testing.T) {
	found := misses(1000)
	d := Situation{MaxEvents: 10}.decide(found)
	assert.Equal(t, found[:10], d.Notify)
	assert.Equal(t, found[10:], d.Rest)
	again := Situation{MaxEvents: 10, GroupStates: d.GroupStates}.decide(found)
	assert.Empty(t, again.Notify)
	assert.Empty(t, again.Rest)
	assert.Empty(t, Situation{MaxEvents: 10}.decide(found[:10]).Rest)
}

// For any changes: what lasts long enough is reported exactly once, and nothing is reported early.
func TestEachGroupIsReportedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := misses(6)
		const patience = 10 * time.Second
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		since, reported := map[Key]time.Time{}, map[Key]bool{}
		var records map[Key]GroupState
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "seconds")) * time.Second)
			var found []Group
			there := map[Key]bool{}
			for _, m := range all {
				if rapid.Bool().Draw(t, "there") {
					found, there[m.Key] = append(found, m), true
				}
			}
			for _, m := range all {
				if !there[m.Key] {
					delete(since, m.Key)
					delete(reported, m.Key)
				} else if _, ok := since[m.Key]; !ok {
					since[m.Key] = now
				}
			}
			d := Situation{Now: now, Patience: patience, MaxEvents: 3, GroupStates: records}.decide(found)
			records = d.GroupStates
			for _, m := range append(d.Notify, d.Rest...) {
				require.True(t, there[m.Key])
				require.False(t, reported[m.Key], "twice")
				require.GreaterOrEqual(t, now.Sub(since[m.Key]), patience, "early")
				reported[m.Key] = true
			}
			for _, m := range found {
				waited := now.Sub(since[m.Key])
				require.Equal(t, waited >= patience, reported[m.Key], "after %s", waited)
				if waited < patience {
					require.LessOrEqual(t, d.After, patience-waited)
					require.Positive(t, d.After)
				}
			}
		}
	})
}

func TestNamespaceNotOptedInIsForgotten(t *testing.T) {
	assert.Equal(t, Decision{Forget: true}, Decide(Situation{GroupStates: map[Key]GroupState{{}: {}}}))
}
