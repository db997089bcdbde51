package judge

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// The condition names five workloads at most. What is decided follows the whole
// list: of 50 stale workloads none is taken for another category, whose names are
// prefixes of each other included.
func TestFiftyStaleWorkloads(t *testing.T) {
	const sentence = "an older certificate is still served by Deployment w1, Deployment w10, Deployment w11, Deployment w12, Deployment w13 and 45 more"
	services := []Service{service("old", metav1.ConditionFalse, api.ServingStale, sentence)}
	var (
		consumers []Consumer
		entries   []api.StaleWorkload
	)
	for i := 1; i <= 50; i++ {
		name := fmt.Sprintf("w%d", i)
		consumers = append(consumers, mounter(name, api.OnRotateReload, "old-tls"))
		entries = append(entries, stale("old", "Deployment", name, api.OnRotateReload, nil))
	}
	consumers = append(consumers, mounter("w", api.OnRotateReload, "old-tls"), mounter("w500", api.OnRotateReload, "old-tls"))
	AddStale(services, list(entries...))
	got := Consequences(DistrustSituation{Services: services, Consumers: consumers})
	assert.Contains(t, got, "  workloads that already serve an older certificate, and break until somebody restarts them: 50: shop Deployment/w1, shop Deployment/w10, ")
	assert.Contains(t, got, "may break until somebody restarts them: 2: shop Deployment/w, shop Deployment/w500\n")
	assert.NotContains(t, got, "have been seen to reload, and serve")
	assert.Len(t, services[0].Serving.Stale, 50)
	assert.Empty(t, Doubt(services))

	assert.Equal(t, []NotServed{{"shop/old", sentence}}, CountUptake(services).left)
	for i := range entries {
		entries[i].OnRotate = api.OnRotateRestart
		entries[i].Held = paused
	}
	entries[49].Held = turn
	AddStale(services, list(entries...))
	u := CountUptake(services)
	assert.Equal(t, []string{"shop/old"}, u.Waiting, "the one whose turn comes by itself is waited for")
	assert.Len(t, u.held, 49)
	assert.Contains(t, u.Progress(), "; not yet: shop/old; shop Deployment/w1 held: Paused: it is paused; kubectl rollout resume lets it go on; shop Deployment/w10 held: Paused: ")
	assert.Contains(t, u.Progress(), "; and 29 more")
	assert.Equal(t, 49, strings.Count(Consequences(DistrustSituation{Services: services})+u.End(), "not served: shop Deployment/"))
	assert.Contains(t, Consequences(DistrustSituation{Services: services}), "whose restart is held: 49: ")

	entries[49].Held = paused
	AddStale(services, list(entries...))
	u = CountUptake(services)
	assert.Empty(t, u.Waiting, "nothing moves any more")
	assert.Equal(t, 50, strings.Count(u.End(), " held: Paused: it is paused; kubectl rollout resume lets it go on\n"))
}

// Entries of another Secret, another leaf or another namespace are not the Service's.
func TestStaleWorkloadsAreOfTheSecretAndTheLeaf(t *testing.T) {
	mine := stale("old", "Deployment", "legacy", api.OnRotateReload, nil)
	secret, leaf, namespace := mine, mine, mine
	secret.Secret, leaf.Leaf, namespace.Namespace = "older-tls", "newer", "shop-2"
	services := []Service{service("old", metav1.ConditionFalse, api.ServingStale, ""), {Namespace: "shop", Name: "unseen", Secret: "old-tls", Leaf: "new"}}
	AddStale(services, list(secret, leaf, namespace, mine))
	assert.Equal(t, []api.StaleWorkload{mine}, services[0].Serving.Stale)
	assert.Nil(t, services[1].Serving)
}

func TestStaleWorkloadsOfARetainedSecret(t *testing.T) {
	const fingerprint = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}}
	serving := metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionFalse, Reason: api.ServingStale, Message: "older"}
	svc.Status.Conditions = append(state.Say(ready(metav1.ConditionTrue, api.ReasonRetained, "kept"), state.Ready{Secret: "old-tls", Leaf: fingerprint}).Both(),
		state.Say(serving, state.Serving{Leaf: fingerprint, Since: noon}).Both()...)
	s, ok := ServiceOf(svc)
	require.True(t, ok)
	assert.Empty(t, s.Secret, "it asks for none")
	w := stale("old", "Deployment", "legacy", api.OnRotateReload, nil)
	w.Leaf = fingerprint
	services := []Service{s}
	AddStale(services, list(w))
	assert.Equal(t, []api.StaleWorkload{w}, services[0].Serving.Stale)
}

// What is not known is said in one line, and no workload is taken to reload or to be
// restarted because of it.
func TestStaleWorkloadsThatAreNotKnown(t *testing.T) {
	entry := stale("old", "Deployment", "legacy", api.OnRotateReload, nil)
	other := entry
	other.Leaf = "newer"
	for name, c := range map[string]struct {
		list   StaleList
		doubt  string
		unseen string // the line of the cautious category
	}{
		"missing":   {StaleList{Problem: "ConfigMap sys/x does not exist"}, "which workloads serve an older certificate is unknown: ConfigMap sys/x does not exist", "3: shop Deployment/fresh, shop Deployment/legacy, shop Deployment/rolled"},
		"forbidden": {StaleList{Problem: "configmaps is forbidden"}, "which workloads serve an older certificate is unknown: configmaps is forbidden", "3: shop Deployment/fresh, shop Deployment/legacy, shop Deployment/rolled"},
		"partial": {
			StaleList{ServingStatus: api.ServingStatus{Stale: []api.StaleWorkload{entry}, Count: 60}},
			"the list of workloads that serve an older certificate is partial: it has 1 of 60", "2: shop Deployment/fresh, shop Deployment/rolled",
		},
		"about the leaf of before": {list(other), "which workloads serve an older certificate is not reported yet", "3: shop Deployment/fresh, shop Deployment/legacy, shop Deployment/rolled"},
		"empty":                    {list(), "which workloads serve an older certificate is not reported yet", "3: shop Deployment/fresh, shop Deployment/legacy, shop Deployment/rolled"},
	} {
		t.Run(name, func(t *testing.T) {
			services := []Service{
				service("web", metav1.ConditionTrue, api.ServingCurrent, ""),
				service("old", metav1.ConditionFalse, api.ServingStale, "older, by Deployment legacy"),
			}
			AddStale(services, c.list)
			assert.Equal(t, c.doubt, Doubt(services))
			assert.Empty(t, services[0].Serving.StaleUnknown, "its pods are known to serve the new certificate")
			got := Consequences(DistrustSituation{Services: services, Consumers: []Consumer{
				mounter("legacy", api.OnRotateReload, "old-tls"),
				mounter("fresh", api.OnRotateReload, "old-tls", "web-tls"),
				mounter("rolled", api.OnRotateRestart, "old-tls"),
				mounter("web", api.OnRotateReload, "web-tls"),
			}})
			assert.Contains(t, got, "may break until somebody restarts them: "+c.unseen+"\n")
			assert.Contains(t, got, "seconds after its issue (92 s at most): 1: shop Deployment/web\n")
			assert.NotContains(t, got, "that the rotator restarts")
			assert.Equal(t, 1, strings.Count(got, "  "+c.doubt+"\n"))

			u := CountUptake(services)
			assert.Empty(t, u.Waiting)
			assert.False(t, u.Over(), "a restart may be under way")
			assert.True(t, strings.HasSuffix(u.End(), "not served: shop/old: older, by Deployment legacy\n"+c.doubt+"\n"), u.End())
			assert.Contains(t, u.Progress(), "; "+c.doubt)
		})
	}
	t.Run("nothing is stale", func(t *testing.T) {
		services := []Service{service("web", metav1.ConditionTrue, api.ServingCurrent, "")}
		AddStale(services, StaleList{Problem: "ConfigMap sys/x does not exist"})
		assert.Empty(t, Doubt(services), "and there is nothing to know")
		assert.True(t, CountUptake(services).Over())
	})
}

// A hold that passes by itself is waited for; one that does not, and one that this
// program does not know, is not.
func TestHeldRestarts(t *testing.T) {
	old := func(held *api.RestartHold) []Service {
		services := []Service{service("old", metav1.ConditionFalse, api.ServingStale, "older"), service("slow", metav1.ConditionFalse, api.ServingPropagating, "")}
		AddStale(services, list(stale("old", "Deployment", "legacy", api.OnRotateRestart, held)))
		return services
	}
	u := CountUptake(old(turn))
	assert.Equal(t, []string{"shop/old", "shop/slow"}, u.Waiting)
	assert.Empty(t, u.held)

	u = CountUptake(old(&api.RestartHold{Reason: "SomethingNew", Message: "why"}))
	assert.Equal(t, []string{"shop/slow"}, u.Waiting)
	assert.Equal(t, "the pods of 0 of 2 Services serve their new certificate; not yet: shop/slow; shop Deployment/legacy held: SomethingNew: why", u.Progress())
	assert.False(t, u.Over())

	services := old(paused)[:1]
	u = CountUptake(services)
	assert.False(t, u.Over(), "it may be lifted at once")
	assert.Empty(t, u.Waiting)
	assert.Equal(t, "served: by no pod\nnot served: shop/old: older\nnot served: shop Deployment/legacy held: Paused: it is paused; kubectl rollout resume lets it go on\n", u.End())

	services[0].Leaf = "newer" // renewed meanwhile: what was held was for the leaf of before
	u = CountUptake(services)
	assert.Equal(t, []string{"shop/old"}, u.Waiting)
	assert.Empty(t, u.held)
}

func TestStaleLines(t *testing.T) {
	one := stale("old", api.PodKind, "bare", api.OnRotateReload, nil)
	one.Pods = 1
	assert.Equal(t, []string{
		"Deployment/legacy: 2 pods serve an older certificate, servingcert.dev/on-rotate: restart; held: Turn: Deployment web rolls out",
		"Pod/bare: 1 pod serves an older certificate, servingcert.dev/on-rotate: reload",
	}, StaleLines([]api.StaleWorkload{stale("old", "Deployment", "legacy", api.OnRotateRestart, turn), one}))
}

func TestConsequences(t *testing.T) {
	nobody := Consequences(DistrustSituation{})
	assert.Contains(t, nobody, "  Services whose certificates are replaced: none\n")
	assert.Contains(t, nobody, "  workloads that mount a certificate or the bundle: none\n")
	assert.NotContains(t, nobody, "backup")
	assert.NotContains(t, nobody, "targets")

	services := []Service{service("old", metav1.ConditionFalse, api.ServingStale, "older")}
	AddStale(services, list(stale("old", "Deployment", "legacy", api.OnRotateReload, nil)))
	got := Consequences(DistrustSituation{Lost: "CALost: gone", Services: services, ConsumersErr: errors.New("pods is forbidden"), Trust: &TrustStatus{Targets: 7}})
	assert.Contains(t, got, "The CA cannot be used (CALost: gone). If you have a backup")
	assert.Contains(t, got, "break until somebody restarts them: 1: shop Deployment/legacy\n", "what is reported needs no pods to be listed")
	assert.Contains(t, got, "  workloads that mount a certificate or the bundle: unknown: pods is forbidden\n")
	assert.Contains(t, got, "): 7\n")
}

func TestOldClients(t *testing.T) {
	status := api.ServingStatus{Clients: api.OldClients{
		{Generation: 2, Root: strings.Repeat("a", 64)},
		{Generation: 3, Root: strings.Repeat("b", 64), Pods: 12, Workloads: 11, First: []string{"shop/Deployment web", "x/Pod \x1b[31m"}},
	}}
	data, err := status.Data()
	require.NoError(t, err)
	old := ParseOldClients(data)
	require.Len(t, old, 1, "the root of generation 2 is held by all")
	assert.Contains(t, old[0].String(), "12 pods of 11 workloads may not hold the root of generation 3, as they were started before it was everywhere: shop/Deployment web, x/Pod ")
	assert.NotContains(t, old[0].String(), "\x1b")
	assert.Empty(t, ParseOldClients(map[string]string{"clients": "{"}))
}
