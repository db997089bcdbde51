package controller

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestState(t *testing.T) {
	state := NewState(&cluster.Cluster{})
	key := pods.NamespacedKey{Namespace: "shop", Key: pods.SecretKey("web-tls")}
	answers := []probe.Answer{{Port: 8443, Kind: probe.TLS, Leaf: rotatortest.Leaf(2), At: rotatortest.Noon.Add(time.Hour)}}
	of := func(pod string) probe.Target {
		return probe.Target{Key: probe.Key{Of: key, Pod: types.UID("uid-of-" + pod)}}
	}
	state.Record(of("a"), answers) // not tracked
	assert.False(t, state.follows(key))

	look := func(now time.Time, names ...string) (before keyState, d serving.Decision) {
		before = state.open(key, now)
		s := serving.SecretSituation{Secret: "web-tls", Common: serving.Common{
			Now: now, Namespace: "shop", Services: []*corev1.Service{rotatortest.Ready("web", rotatortest.Leaf(2))},
			KeyState: before.state, Pace: DefaultConfig().pace(),
		}}
		for _, name := range names {
			s.Pods = append(s.Pods, pods.FactsOf(rotatortest.ReadyPod(name, "web")))
		}
		return before, s.Decide()
	}
	_, d := look(rotatortest.Noon, "a", "b")
	assert.True(t, state.follows(key))
	state.put(key, keyState{state: d.KeyState})

	_, d = look(rotatortest.Noon.Add(time.Hour), "a")
	state.Record(of("a"), answers)
	state.Record(of("replaced"), answers)
	state.put(key, keyState{state: d.KeyState})
	_, d = look(rotatortest.Noon.Add(time.Hour), "a")
	assert.Equal(t, 1, d.States["current"], "answers since open are kept")
	assert.Empty(t, d.Dial, "it was first seen an hour ago, and has answered")

	state.forget(key)
	assert.False(t, state.follows(key))
}

// TestPodsWithoutAKeyChange: a decision is made again if it knew others, and only then.
func TestPodsWithoutAKeyChange(t *testing.T) {
	state := NewState(&cluster.Cluster{})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	require.NoError(t, state.answered.Start(t.Context(), queue))
	key := pods.NamespacedKey{Namespace: "shop", Key: pods.SecretKey("web-tls")}
	web := rotatortest.Ready("web", rotatortest.Leaf(2))
	services := []*corev1.Service{web}
	none := func() []*pods.Facts { return nil }
	old := func() []*pods.Facts {
		return []*pods.Facts{pods.FactsOf(rotatortest.ReadyPod("a", "web", func(p *corev1.Pod) { p.Spec.Volumes = nil }))}
	}
	again := func(all func() []*pods.Facts) bool {
		state.PodsChanged("shop", services, all)
		if queue.Len() == 0 {
			return false
		}
		got, _ := queue.Get()
		queue.Done(got)
		assert.Equal(t, requestOf(key), got)
		return true
	}
	assert.False(t, again(old), "there was no decision")
	assert.NotEmpty(t, state.findKeyless(key, services, old)[web.UID])
	assert.False(t, again(old))
	assert.True(t, again(none))
	assert.True(t, again(none), "until it is decided")
	assert.Empty(t, state.findKeyless(key, services, none))
	assert.False(t, again(none))
	assert.True(t, again(old))
	state.forget(key)
	assert.False(t, again(old))
}

func TestStaleWorkloadsOfAllSecrets(t *testing.T) {
	state := NewState(&cluster.Cluster{})
	put := func(namespace, secret string) serving.StaleWorkload {
		stale := serving.StaleWorkload{Workload: pods.Workload{Kind: "Deployment", Name: "web"}, Key: pods.SecretKey(secret)}
		state.put(pods.NamespacedKey{Namespace: namespace, Key: pods.SecretKey(secret)}, keyState{stale: []serving.StaleWorkload{stale}})
		return stale
	}
	b, a := put("shop", "b"), put("shop", "a")
	put("other", "x")
	assert.Equal(t, []serving.StaleWorkload{a, b}, state.Stale("shop"))
}

// Handshakes are counted, those of the latest answers.
func TestHandshakesAreCounted(t *testing.T) {
	state := NewState(&cluster.Cluster{})
	key := pods.NamespacedKey{Namespace: "shop", Key: pods.SecretKey("web-tls")}
	before := state.open(key, rotatortest.Noon)
	d := serving.SecretSituation{Secret: "web-tls", Common: serving.Common{
		Now: rotatortest.Noon, Namespace: "shop", Services: []*corev1.Service{rotatortest.Ready("web", rotatortest.Leaf(1))}, KeyState: before.state, Pace: DefaultConfig().pace(),
		Pods: []*pods.Facts{pods.FactsOf(rotatortest.ReadyPod("a", "web")), pods.FactsOf(rotatortest.ReadyPod("b", "web"))},
	}}.Decide()
	state.put(key, keyState{state: d.KeyState})
	old := probe.Handshake{Version: tls.VersionTLS13, Group: tls.X25519, Signature: x509.ECDSAWithSHA256}
	hybrid := old
	hybrid.Group = tls.X25519MLKEM768
	answer := func(pod string, minute int, kind probe.Kind, h probe.Handshake) {
		a := probe.Answer{Port: 8443, Kind: kind, Leaf: rotatortest.Leaf(1), At: rotatortest.Noon.Add(time.Duration(minute) * time.Minute), Handshake: h}
		state.Record(probe.Target{Key: probe.Key{Of: key, Pod: types.UID("uid-of-" + pod)}}, []probe.Answer{a})
	}
	answer("a", 1, probe.TLS, old)
	answer("b", 1, probe.TLS, hybrid)
	assert.Equal(t, map[probe.Handshake]int{old: 1, hybrid: 1}, state.handshakes())
	answer("a", 2, probe.TLS, hybrid)
	assert.Equal(t, map[probe.Handshake]int{hybrid: 2}, state.handshakes())
	answer("b", 2, probe.NoAnswer, probe.Handshake{})
	assert.Equal(t, map[probe.Handshake]int{hybrid: 1}, state.handshakes())
}

func TestKeysInTheQueue(t *testing.T) {
	for _, key := range []pods.Key{{}, pods.PodKey, pods.SecretKey("web-tls")} {
		of := pods.NamespacedKey{Namespace: "shop", Key: key}
		assert.Equal(t, of, keyOf(requestOf(of)))
	}
}
