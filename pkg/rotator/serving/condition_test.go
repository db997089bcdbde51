package serving

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func deploymentNamed(name string) pods.Workload {
	return pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
}

// groupOf is a group of Deployment NAME with one pod in each state at the Service's only port.
func groupOf(svc *corev1.Service, name string, states ...State) group {
	c := group{workload: deploymentNamed(name), onRotate: api.OnRotateReload, services: []*corev1.Service{svc}, met: map[need]int{}}
	seen := newSighting()
	for _, s := range states {
		seen.states[s]++
	}
	c.notReady = seen.states[stateNotReady]
	c.ready = len(states) - c.notReady
	if seen.states[stateNoPort] == 0 {
		c.met[need{svc.UID, "8443"}], c.sets = 0, []sighting{seen}
	}
	return c
}

// servingCondition is the condition of a Service whose Secret holds cert2.
func servingCondition(svc *corev1.Service, groups []group, absent time.Duration) *state.Condition {
	return servingStatement(svc, "web-tls", Seen{groups: groups}, cert2).condition(absent >= testPace.confirmAfter())
}

func TestServingCondition(t *testing.T) {
	fresh := rotatortest.Ready("web", rotatortest.Leaf(2))
	same := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon)
	older := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(1), rotatortest.Noon.Add(-time.Hour))
	other := rotatortest.Ready("other", rotatortest.Leaf(2))
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	restart := func(c group) group {
		c.onRotate = api.OnRotateRestart
		return c
	}
	because := func(c group, causes ...probe.Cause) group {
		for _, why := range causes {
			state := stateNotVerified
			if why == probe.CauseDeclined {
				state = statePlaintext
			}
			c.sets[0].causes[cause{state, why, starttls.Postgres}] = true
		}
		return c
	}
	tests := []struct {
		name   string
		svc    *corev1.Service
		groups []group
		absent time.Duration
		status metav1.ConditionStatus // empty: undecided
		reason string
		text   string
	}{
		{"not mounted", fresh, nil, 0, no, api.ServingNoConsumers, `no ready pod of this Service mounts the key of Secret "web-tls"`},
		{"no longer mounted", same, nil, 29 * time.Second, "", "", ""},
		{"not mounted for a while", same, nil, 30 * time.Second, no, api.ServingNoConsumers, ""},
		{"not mounted, and a new certificate", older, nil, 0, no, api.ServingNoConsumers, ""},
		{"none is ready", fresh, []group{groupOf(fresh, "web", stateNotReady)}, 0, no, api.ServingNoConsumers, ""},
		{"those of another Service", fresh, []group{groupOf(other, "web", stateCurrent)}, 0, no, api.ServingNoConsumers, ""},

		{"all current", fresh, []group{groupOf(fresh, "web", stateCurrent, stateCurrent)}, 0, yes, api.ServingCurrent, `every ready pod of this Service that mounts Secret "web-tls" serves its certificate`},
		{"all but one that is not ready", same, []group{groupOf(same, "web", stateCurrent, stateNotReady)}, 0, yes, api.ServingCurrent, ""},
		{"all but one that cannot be asked", same, []group{groupOf(same, "web", stateCurrent), groupOf(same, "job", stateNoPort)}, 0, yes, api.ServingCurrent, ""},
		{"all but one that is new", same, []group{groupOf(same, "web", stateCurrent, stateNew)}, 0, yes, api.ServingCurrent, ""},
		{"none has the port", same, []group{groupOf(same, "web", stateNoPort)}, 30 * time.Second, no, api.ServingNoPort, "no ready pod of this Service has targetPort 8443: declare a port"},
		{"none has the port for a moment", same, []group{groupOf(same, "web", stateNoPort)}, 29 * time.Second, "", "", ""},

		{"none was asked", fresh, []group{groupOf(fresh, "web", statePending)}, 0, no, api.ServingPropagating, ""},
		{"none was asked again", same, []group{groupOf(same, "web", statePending)}, 0, "", "", ""},
		{"none was asked since it changed", older, []group{groupOf(older, "web", statePending)}, 0, no, api.ServingPropagating, `Secret "web-tls" holds a new certificate`},
		{"the first pods", fresh, []group{groupOf(fresh, "web", stateNew)}, 0, no, api.ServingPropagating, "no pod of this Service has been dialled"},
		{"the first pods after a time without", same, []group{groupOf(same, "web", stateNew)}, 0, "", "", ""},
		{"one was not asked again", same, []group{groupOf(same, "web", statePending, stateCurrent)}, 0, "", "", ""},
		{"on its way", same, []group{groupOf(same, "web", statePropagating, stateCurrent)}, 0, no, api.ServingPropagating, ""},
		{"on its way to some", same, []group{groupOf(same, "web", statePropagating, stateStale)}, 0, no, api.ServingPropagating, ""},

		{"stale", same, []group{groupOf(same, "web", stateStale, stateCurrent), groupOf(same, "api", stateCurrent)}, 0, no, api.ServingStale, `an older certificate than the one in Secret "web-tls" is still served by Deployment web: restart workloads that do not reload their files, or annotate their pod template servingcert.dev/on-rotate: restart`},
		{"stale, others pending", same, []group{groupOf(same, "web", stateStale, statePending)}, 0, no, api.ServingStale, ""},
		{"stale, and restarted", same, []group{restart(groupOf(same, "web", stateStale))}, 0, no, api.ServingStale, "served by Deployment web; annotation servingcert.dev/on-rotate requests a restart: they are restarted, or an event explains why not"},
		{"stale, one restarted", same, []group{restart(groupOf(same, "web", stateStale)), groupOf(same, "api", stateStale)}, 0, no, api.ServingStale, "Deployment api, Deployment web: restart workloads that do not"},
		{"foreign", same, []group{groupOf(same, "web", stateForeign, stateCurrent, statePlaintext)}, 0, no, api.ServingForeign, `a certificate that is not from Secret "web-tls" is served by Deployment web: a service mesh's proxy`},
		{"plaintext", same, []group{groupOf(same, "web", statePlaintext, stateUnreachable)}, 0, no, api.ServingPlaintext, "no TLS at the port of Deployment web"},
		{"not verified", same, []group{because(groupOf(same, "web", stateNotVerified, stateUnreachable, stateCurrent), probe.CauseLoopback)}, 0, unknown, api.ServingNotVerified, `cannot tell whether the certificate in Secret "web-tls" is served: not verified: Deployment web: its address is a loopback address`},
		{"offers no TLS", same, []group{because(groupOf(same, "web", statePlaintext), probe.CauseDeclined)}, 0, no, api.ServingPlaintext, "no TLS at the port of Deployment web: it offers no TLS in protocol postgres"},
		{"no TLS, and offers none", same, []group{groupOf(same, "api", statePlaintext), because(groupOf(same, "web", statePlaintext, stateNotVerified), probe.CauseDeclined, probe.CauseProtocol)}, 0, no, api.ServingPlaintext, "no TLS at the port of Deployment api, Deployment web: it offers no TLS in protocol postgres"},
		{"another protocol", same, []group{because(groupOf(same, "web", stateNotVerified), probe.CauseProtocol)}, 0, unknown, api.ServingNotVerified, "not verified: Deployment web: its answer in protocol postgres, before TLS, was not understood: the port speaks another protocol, or the server has an error"},
		{"not verified, of several causes", same, []group{because(groupOf(same, "web", stateNotVerified), probe.CausePanic), because(groupOf(same, "api", stateNotVerified), probe.CauseOutside)}, 0, unknown, api.ServingNotVerified, "not verified: Deployment api, Deployment web: its address is outside --pod-cidrs; its answer could not be read; see the rotator's log for the location of the error"},
		{"unreachable", same, []group{groupOf(same, "web", stateUnreachable, stateCurrent)}, 0, unknown, api.ServingUnreachable, "no answer from Deployment web: the port is closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := servingCondition(tt.svc, tt.groups, tt.absent)
			if tt.status == "" {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, string(tt.status)+" "+tt.reason, string(got.Status)+" "+got.Reason)
			assert.Contains(t, got.Message, tt.text)
			facts, ok := state.ServingOf(&corev1.Service{Status: corev1.ServiceStatus{Conditions: got.Both()}})
			assert.True(t, ok)
			assert.Equal(t, rotatortest.Leaf(2), facts.Leaf)
			assert.Equal(t, rotatortest.Noon, facts.Since)
		})
	}
}

// An invalid annotation for dials is reported, beside the state.
func TestConditionReportsInvalidProbe(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	svc.Annotations[api.AnnotationProbe] = "5432=postgres"
	got := servingCondition(svc, []group{groupOf(svc, "web", stateStale)}, 0)
	assert.Equal(t, api.ServingStale, got.Reason)
	assert.Contains(t, got.Message, `; ignored: servingcert.dev/probe: "5432=postgres": of PORT=PROTOCOL, PORT must be the name or the number of a TCP port of this Service`)
}

func TestConditionNamesFewWorkloadsSorted(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	var groups []group
	for i := range 9 {
		for range 3 { // as the pods of a StatefulSet, which have a template each
			groups = append(groups, groupOf(svc, fmt.Sprintf("w%d", i), stateStale))
		}
	}
	want := servingCondition(svc, groups, 0).Message
	assert.Contains(t, want, "by Deployment w0, Deployment w1, Deployment w2, Deployment w3, Deployment w4 and 4 more: ")
	assert.NotContains(t, want, "27")
	for range 20 {
		rand.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
		assert.Equal(t, want, servingCondition(svc, groups, 0).Message)
	}
	bare := groupOf(svc, "", stateStale)
	bare.workload = pods.Workload{}
	assert.Contains(t, servingCondition(svc, []group{bare}, 0).Message, "served by pods without a controller: ")
}

func TestNotVerified(t *testing.T) {
	assert.Nil(t, notVerified(rotatortest.Ready("web", rotatortest.Leaf(2))), "there was no condition")
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon)
	want := notVerified(svc)
	require.NotNil(t, want)
	assert.Equal(t, "Unknown NotVerified", string(want.Status)+" "+want.Reason)
	svc.Status.Conditions = append(state.Of(svc, api.ConditionReady).Both(), want.Both()...)
	assert.Nil(t, notVerified(svc), "once")
	facts, ok := state.ServingOf(svc)
	assert.True(t, ok && facts.Leaf == rotatortest.Leaf(2) && facts.Since.Equal(rotatortest.Noon), "for later dials")
}

func TestOnlyPodKeys(t *testing.T) {
	in := func(key pods.Key, state State) part {
		return part{group{key: key}, sighting{states: map[State]int{state: 1}}}
	}
	ofPods, ofSecret, current := in(pods.PodKey, stateStale), in(pods.SecretKey("web-tls"), stateStale), in(pods.SecretKey("web-tls"), stateCurrent)
	assert.True(t, onlyPodKeys([]part{ofPods, current}, stateStale))
	assert.False(t, onlyPodKeys([]part{ofPods, ofSecret}, stateStale))
	assert.False(t, onlyPodKeys([]part{ofPods}, stateCurrent), "none is in the state")
	assert.False(t, onlyPodKeys(nil, stateStale))
}

func TestSeenEqual(t *testing.T) {
	g := groupOf(rotatortest.Ready("web", rotatortest.Leaf(2)), "web", stateStale)
	others := []group{g, g, g, g, g, g, g}
	others[0].workload.Name, others[1].onRotate = "api", api.OnRotateRestart
	others[2].key, others[3].distrusted = pods.PodKey, true
	others[4].ready, others[5].notReady = 2, 2
	others[6].sets = groupOf(g.services[0], "web", stateCurrent).sets
	for _, other := range others {
		assert.False(t, Seen{groups: []group{g}}.Equal(Seen{groups: []group{other}}), "%+v", other)
	}
}

// The causes of a state are those of answers of its kind.
func TestCausesOfAGroup(t *testing.T) {
	c := asked(readyPod("a", "web"), probe.Answer{Kind: probe.Plaintext},
		probe.Answer{Kind: probe.Plaintext, Cause: "says so", Protocol: starttls.MySQL}, probe.Answer{Kind: probe.NotVerified, Cause: "another"})
	c.endpoint = &endpoint{ports: []uint16{0}, sets: [][]uint16{{0}}}
	g := groups{index: map[groupKey]int{}}
	g.add(c, false, certificate{}, testPace)
	assert.Equal(t, map[cause]bool{{statePlaintext, "says so", starttls.MySQL}: true}, g.all[0].sets[0].causes)
}
