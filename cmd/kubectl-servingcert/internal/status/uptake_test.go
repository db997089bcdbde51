package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// service returns a Service that requests Secret NAME-tls, which has held leaf "new" since noon.
func service(name string, status metav1.ConditionStatus, reason, message string) Service {
	since := noon
	return Service{Namespace: "shop", Name: name, Secret: name + "-tls", Leaf: "new", Serving: &Serving{
		Status: string(status), Reason: reason, Message: message, Leaf: "new", Since: &since, Changed: noon.Add(time.Minute),
	}}
}

// mounter returns a Deployment's pod that is older than the certificate.
func mounter(workload string, onRotate api.OnRotate, secrets ...string) Consumer {
	c := Consumer{Namespace: "shop", Kind: "Deployment", Name: workload, Restartable: true, OnRotate: onRotate, Started: noon.Add(-time.Hour)}
	for _, secret := range secrets {
		c.Keys = append(c.Keys, pods.SecretKey(secret))
	}
	return c
}

// stale sets the stale workloads in the condition of a Service.
func stale(s Service, workloads ...state.StaleWorkload) Service {
	s.Serving.Stale = workloads
	return s
}

func TestBreaking(t *testing.T) {
	services := []Service{
		service("web", metav1.ConditionTrue, api.ServingCurrent, ""),
		service("old", metav1.ConditionFalse, api.ServingStale, "an older certificate is still served by Deployment legacy, Deployment legacy-2: restart them"),
		service("plain", metav1.ConditionFalse, api.ServingPlaintext, ""),
		{Namespace: "shop", Name: "new", Secret: "new-tls", Leaf: "new"},
	}
	services[1] = stale(services[1],
		state.StaleWorkload{Kind: "Deployment", Name: "legacy", OnRotate: api.OnRotateReload},
		state.StaleWorkload{Kind: "Deployment", Name: "legacy-2", OnRotate: api.OnRotateNone}, // without pods
		state.StaleWorkload{Kind: "", Name: "", OnRotate: api.OnRotateReload},                 // pods without a controller
		state.StaleWorkload{Kind: "Deployment", Name: "next", OnRotate: api.OnRotateRestart},
	)
	young := mounter("young", api.OnRotateReload, "web-tls")
	young.Started = noon.Add(time.Second)
	undoable := Consumer{Namespace: "shop", Kind: api.PodKind, Name: "undoable", Keys: []pods.Key{pods.SecretKey("web-tls")}, OnRotate: api.OnRotateRestart, Started: noon} // has no controller
	bare := Consumer{Namespace: "shop", Kind: api.PodKind, Name: "bare", Keys: []pods.Key{pods.SecretKey("new-tls")}}
	got := breakingLines(breaking([]Consumer{
		mounter("web", api.OnRotateReload, "web-tls"),
		young,
		mounter("legacy", api.OnRotateReload, "old-tls"),
		mounter("legacy", api.OnRotateReload, "old-tls"),
		mounter("leg", api.OnRotateReload, "old-tls"), // whose name others begin with
		{Namespace: "shop", Kind: api.PodKind, Name: "bare-stale", Keys: []pods.Key{pods.SecretKey("old-tls")}},
		{Namespace: "shop", Kind: api.PodKind, Name: "bare-st", Keys: []pods.Key{pods.SecretKey("old-tls")}},
		mounter("rolled", api.OnRotateRestart, "old-tls"),
		mounter("both", api.OnRotateReload, "web-tls", "plain-tls"),
		mounter("client", api.OnRotateReload),
		bare,
		undoable,
	}, services))
	assert.Equal(t, `  workloads that already serve an older certificate, and break until they are restarted: 2: shop Deployment/legacy, shop Deployment/legacy-2
  workloads that have not been seen to reload a certificate, and may break until they are restarted: 7: shop Deployment/both, shop Deployment/leg, shop Deployment/young, shop Pod/bare, shop Pod/bare-st, shop Pod/bare-stale, shop Pod/undoable
  workloads that the rotator restarts if they do not reload (servingcert.dev/on-rotate: restart), one at a time in each namespace: 2: shop Deployment/next, shop Deployment/rolled
  workloads that have been seen to reload, and serve the new certificate within seconds of its issuance (92 s at most): 1: shop Deployment/web
  workloads that mount only the bundle, and have the new one within seconds (92 s at most): 1: shop Deployment/client
`, got)
}

func TestNamed(t *testing.T) {
	assert.Equal(t, "  x: none\n", named("x", nil))
	assert.Equal(t, "  x: 2: a, b\n", named("x", []string{"b", "a"}))
	many := make([]string, maxNamed+3)
	for i := range many {
		many[i] = "n"
	}
	assert.Contains(t, named("x", many), "  x: 23: n, n,")
	assert.Contains(t, named("x", many), ", n and 3 more\n")
}

// TestAReloadIsSeenBesidePodsWithoutTheKey: all pods that mount it serve the certificate.
func TestAReloadIsSeenBesidePodsWithoutTheKey(t *testing.T) {
	started, since := time.Unix(1000, 0), time.Unix(2000, 0)
	for reason, want := range map[string]bool{api.ServingNotMounted: true, api.ServingForeign: false} {
		s := &Serving{Status: "False", Reason: reason, Since: &since}
		assert.Equal(t, want, s.sawReload(started), reason)
		assert.False(t, s.sawReload(since.Add(1)), reason)
	}
}
