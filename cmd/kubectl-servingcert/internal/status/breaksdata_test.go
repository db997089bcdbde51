package status

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// TestBreaksMatchConsequences: each workload is in the data and in the text, with the same
// uptake.
func TestBreaksMatchConsequences(t *testing.T) {
	services := []Service{
		service("web", metav1.ConditionTrue, api.ServingCurrent, ""),
		service("old", metav1.ConditionFalse, api.ServingStale, "older"),
	}
	services[0].Serving.Changed = noon
	services[1] = stale(services[1], state.StaleWorkload{Kind: "Deployment", Name: "legacy", OnRotate: api.OnRotateReload}, state.StaleWorkload{Kind: "Deployment", Name: "asks", OnRotate: api.OnRotateRestart})
	seen := mounter("seen", api.OnRotateReload, "web-tls")
	seen.Started = noon.Add(-time.Hour)
	k := DistrustSituation{Services: services, Trust: &Trust{Targets: 7}, Consumers: []Consumer{
		seen, mounter("new", api.OnRotateReload, "web-tls"), mounter("rolled", api.OnRotateRestart, "web-tls"), mounter("client", api.OnRotateReload),
		withOwnKey("own", api.OnRotateRestart), withOwnKey("own", api.OnRotateReload), withOwnKey("ownRolled", api.OnRotateRestart),
	}}
	k.Consumers[1].Started = noon.Add(time.Hour) // younger than what was served
	k.Consumers = append(k.Consumers, Consumer{Namespace: "shop", Kind: "Deployment", Name: "waiting", Keys: []pods.Key{pods.SecretKey("web-tls")}})
	b := BreaksOf(k)
	targets := 7
	assert.Equal(t, Breaks{
		Services: []string{"shop/old", "shop/web"},
		Workloads: []BreakingWorkload{
			{"shop", "Deployment", "asks", "restarted"},
			{"shop", "Deployment", "client", "client"},
			{"shop", "Deployment", "legacy", "stale"},
			{"shop", "Deployment", "new", "unseen"},
			{"shop", "Deployment", "own", "podKey"},
			{"shop", "Deployment", "ownRolled", "podKeyRestarted"},
			{"shop", "Deployment", "rolled", "restarted"},
			{"shop", "Deployment", "seen", "reloads"},
			{"shop", "Deployment", "waiting", "unseen"},
		},
		Targets: &targets,
	}, b)
	text := Consequences(k)
	for _, w := range b.Workloads {
		assert.Regexp(t, `(?m): \d: (.*, )?shop Deployment/`+w.Name+`(,.*)?$`, text)
	}
	for _, u := range uptakes {
		assert.NotEmpty(t, u.name)
		assert.Equal(t, u.name, uptakeName(u.uptake))
	}
}

func TestBreaksWithUnknownWorkloads(t *testing.T) {
	services := []Service{service("old", metav1.ConditionFalse, api.ServingStale, "older")}
	b := BreaksOf(DistrustSituation{Lost: "CALost: gone", Services: services, ConsumersErr: errors.New("pods is\x1b forbidden")})
	assert.Equal(t, "CALost: gone", b.Problem)
	assert.Equal(t, `pods is\u001b forbidden`, b.WorkloadsUnknown)
	assert.Nil(t, b.Targets)
	assert.NotNil(t, b.Workloads)
	assert.NotNil(t, BreaksOf(DistrustSituation{}).Services, "an empty list in -o json, not null")
}

func TestServedIsTheUptakeAsData(t *testing.T) {
	services := []Service{
		service("web", metav1.ConditionTrue, api.ServingCurrent, ""),
		service("slow", metav1.ConditionFalse, api.ServingPropagating, ""),
		service("mesh", metav1.ConditionFalse, api.ServingForeign, "another"),
		service("bare", metav1.ConditionFalse, api.ServingStale, "older"),
	}
	services[0].Serving.Changed = noon
	services[0].Serving.Since = nil
	own := Service{Namespace: "shop", Name: "own", PodKeys: true, Ready: "True"}
	at := noon.UTC()
	assert.Equal(t, Served{
		Services: 4, Serving: 1, Waiting: []string{"shop/slow"}, NotServed: []NotServed{{"shop/mesh", "another"}, {"shop/bare", "older"}},
		PodKeys: []string{"shop/own"}, Last: "shop/web", LastAt: &at,
	}, CountUptake(append(services, own), noon).Served())
	assert.Equal(t, Served{}, CountUptake(nil, noon).Served(), "no Service requests a certificate")

	off := []Service{service("off", metav1.ConditionUnknown, api.ServingNotVerified, "not probed")}
	assert.Equal(t, NotVerified, CountUptake(off, noon).Served().Unknown)
}

func TestRenewalIsObserved(t *testing.T) {
	r := RenewalOf(Service{Namespace: "shop", Name: "web", Secret: "web-tls", Leaf: "old"})
	assert.Equal(t, Renewal{Namespace: "shop", Name: "web", Secret: "web-tls", State: RenewalNotRequested, LeafBefore: "old"}, r)
	r.State = RenewalRequested
	for _, leaf := range []string{"", "old"} {
		waiting := r.Observe(Service{Leaf: leaf, Ready: "False", Reason: "SigningFailed", Message: "no"})
		assert.Equal(t, Renewal{Namespace: "shop", Name: "web", Secret: "web-tls", State: RenewalRequested, LeafBefore: "old", Ready: "False", Reason: "SigningFailed", Message: "no"}, waiting)
		assert.Equal(t, Renewal{Namespace: "shop", Name: "web", Secret: "web-tls", State: RenewalDone, LeafBefore: "old", Leaf: "new"},
			waiting.Observe(Service{Leaf: "new", Ready: "True", Reason: "Issued", Message: "x"}))
	}
}

func TestConsequences(t *testing.T) {
	empty := Consequences(DistrustSituation{})
	assert.Contains(t, empty, "  Services whose certificates are replaced: none\n")
	assert.Contains(t, empty, "  workloads that mount a certificate or the bundle: none\n")
	assert.NotContains(t, empty, "backup")
	assert.NotContains(t, empty, "targets")

	services := []Service{stale(service("old", metav1.ConditionFalse, api.ServingStale, "older"), state.StaleWorkload{Kind: "Deployment", Name: "legacy", OnRotate: api.OnRotateReload})}
	got := Consequences(DistrustSituation{Lost: "CALost: gone", Services: services, ConsumersErr: errors.New("pods is forbidden"), Trust: &Trust{Targets: 7}})
	assert.Contains(t, got, "The CA cannot be used (CALost: gone). If you have a backup")
	assert.Contains(t, got, "break until they are restarted: 1: shop Deployment/legacy\n", "what is reported needs no pods to be listed")
	assert.Contains(t, got, "  workloads that mount a certificate or the bundle: unknown: pods is forbidden\n")
	assert.Contains(t, got, "): 7\n")
}
